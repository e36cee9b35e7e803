package progress

import (
	"runtime"
	"syscall"
)

// yieldThread gives the processor to another thread that is ready to run. The
// call is too short for the Go scheduler to be told.
func yieldThread() { syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }

// yieldGoroutine lets other goroutines of this process run.
func yieldGoroutine() { runtime.Gosched() }
