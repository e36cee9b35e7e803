package launch

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// A rank is one started process and the process group that it leads.
type rank struct {
	id     int
	cmd    *exec.Cmd
	stdout *os.File // read ends of its output
	stderr *os.File
	guard  *guard // nil if there is none

	mu     sync.Mutex
	reaped bool // the process id may be somebody else's by now
}

// startRank starts one rank. The calling thread must live as long as the rank.
func startRank(id int, prog string, args, env []string, stdin io.Reader) (_ *rank, err error) {
	var files []*os.File // closed on failure
	pipe := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err == nil {
			files = append(files, r, w)
		}
		return r, w, err
	}
	defer func() {
		if err != nil {
			for _, f := range files {
				f.Close()
			}
		}
	}()
	outR, outW, err := pipe()
	if err != nil {
		return nil, err
	}
	errR, errW, err := pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(prog, args...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = outW, errW
	cmd.SysProcAttr = procAttr()
	var inR, inW *os.File
	if stdin != nil {
		// A pipe even if it is a file: a process group in the background is
		// stopped when it reads from a terminal.
		if inR, inW, err = pipe(); err != nil {
			return nil, err
		}
		cmd.Stdin = inR
	}
	if err = cmd.Start(); err != nil {
		return nil, err
	}
	outW.Close()
	errW.Close()
	if stdin != nil {
		inR.Close()
		// Blocks in Read for as long as the source does; nothing waits for it.
		go func() {
			_, _ = io.Copy(inW, stdin)
			inW.Close()
		}()
	}
	return &rank{id: id, cmd: cmd, stdout: outR, stderr: errR}, nil
}

// signal sends s to the rank's process group.
func (r *rank) signal(s syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.reaped {
		signalGroup(r.cmd.Process, s)
	}
}

// wait returns when the rank's process and all that is left of its group have
// ended. Processes that it leaves behind get the grace period.
func (r *rank) wait(grace time.Duration) (*os.ProcessState, error) {
	err := awaitGroup(r, grace)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = nil
	}
	return r.cmd.ProcessState, err
}

// startStatus is the exit status for a program that did not start.
func startStatus(err error) int {
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return StatusNotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOEXEC), errors.Is(err, exec.ErrDot):
		return StatusNotExecutable
	}
	return 1
}
