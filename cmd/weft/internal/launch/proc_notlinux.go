//go:build unix && !linux

package launch

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// procAttr makes each rank lead a process group of its own. There is no
// parent-death signal here: the guard alone ends ranks of a launcher that is killed
// by force.
func procAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitGroup waits for r's process and ends what is left of its group.
func awaitGroup(r *rank, grace time.Duration) error {
	err := r.cmd.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reaped = true
	pid := r.cmd.Process.Pid
	defer r.guard.forget(pid)
	if unix.Kill(-pid, unix.SIGTERM) != nil {
		return err // nothing left
	}
	for end := time.Now().Add(grace); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if unix.Kill(-pid, 0) != nil {
			return err
		}
	}
	_ = unix.Kill(-pid, unix.SIGKILL)
	return err
}
