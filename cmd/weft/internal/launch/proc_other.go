//go:build !unix

package launch

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// ForwardedSignals are those that a launcher should hand to [Config.Signals].
var ForwardedSignals = []os.Signal{os.Interrupt}

func procAttr() *syscall.SysProcAttr { return nil }

func endsJob(syscall.Signal) bool { return true }

// signalGroup ends the process: there are no other signals, and no groups.
func signalGroup(p *os.Process, _ syscall.Signal) { _ = p.Kill() }

// killGroup kills a process.
func killGroup(group int) {
	if p, err := os.FindProcess(group); err == nil {
		_ = p.Kill()
	}
}

func guardAttr() *syscall.SysProcAttr { return nil }

func awaitGroup(r *rank, _ time.Duration) error {
	err := r.cmd.Wait()
	r.guard.forget(r.cmd.Process.Pid)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reaped = true
	return err
}

func outcome(state *os.ProcessState) (int, string) {
	return state.ExitCode(), fmt.Sprintf("exited with status %d", state.ExitCode())
}
