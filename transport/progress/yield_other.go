//go:build !linux

package progress

import (
	"runtime"
	"time"
)

func yieldThread() { runtime.Gosched() }

func yieldGoroutine() { runtime.Gosched() }

var began = time.Now()

// threadTime is the time that has passed; that of a thread is not known.
func threadTime() time.Duration { return time.Since(began) }
