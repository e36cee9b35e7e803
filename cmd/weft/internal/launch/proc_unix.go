//go:build unix

package launch

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ForwardedSignals are those that a launcher should hand to [Config.Signals].
var ForwardedSignals = []os.Signal{
	unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2,
}

// endsJob tells the signals that ask a job to end from the others.
func endsJob(s syscall.Signal) bool {
	return s != unix.SIGUSR1 && s != unix.SIGUSR2
}

// signalGroup sends s to the process group that p leads.
func signalGroup(p *os.Process, s syscall.Signal) {
	_ = unix.Kill(-p.Pid, s)
	if s == unix.SIGTERM {
		_ = unix.Kill(-p.Pid, unix.SIGCONT) // a stopped process would not see it
	}
}

// killGroup kills a process group.
func killGroup(group int) { _ = unix.Kill(-group, unix.SIGKILL) }

// guardAttr makes the guard lead a session of its own, so that no signal which is
// meant for the launcher and all that it has started reaches it.
func guardAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// outcome returns a process's exit status as a shell counts it, and in words.
func outcome(state *os.ProcessState) (int, string) {
	ws, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !ws.Signaled() {
		return state.ExitCode(), fmt.Sprintf("exited with status %d", state.ExitCode())
	}
	name := unix.SignalName(ws.Signal())
	if name == "" {
		name = ws.Signal().String()
	}
	how := "was killed by " + name
	if ws.CoreDump() {
		how += " (core dumped)"
	}
	return 128 + int(ws.Signal()), how
}
