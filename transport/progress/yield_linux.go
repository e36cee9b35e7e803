package progress

import (
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// yieldThread gives the processor to another thread that is ready to run. The
// call is too short for the Go scheduler to be told.
func yieldThread() { syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }

// yieldGoroutine lets other goroutines of this process run.
func yieldGoroutine() { runtime.Gosched() }

// threadTime is the processor time that this thread has used.
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
