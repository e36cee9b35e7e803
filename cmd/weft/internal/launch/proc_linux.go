package launch

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// procAttr makes each rank lead a process group of its own and die with the
// thread that started it.
func procAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitGroup waits for r's process, ends what is left of its group, and reaps
// it. Until then the dead process keeps the group's number from being reused,
// so that no signal can reach a stranger.
func awaitGroup(r *rank, grace time.Duration) error {
	pid := r.cmd.Process.Pid
	var err error
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	}
	if err != nil {
		return fmt.Errorf("waitid: %w", err)
	}
	if groupAlive(pid) {
		signalGroup(r.cmd.Process, unix.SIGTERM)
		for end := time.Now().Add(grace); groupAlive(pid) && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	signalGroup(r.cmd.Process, unix.SIGKILL)
	r.guard.forget(pid)
	r.reaped = true
	return r.cmd.Wait()
}

// groupAlive reports whether a process of the group runs, its dead leader aside.
func groupAlive(pgid int) bool {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // has ended meanwhile
		}
		// pid (comm) state ppid pgrp …, where comm may hold anything
		f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
		if len(f) > 2 && string(f[2]) == strconv.Itoa(pgid) && f[0][0] != 'Z' && f[0][0] != 'X' {
			return true
		}
	}
	return false
}
