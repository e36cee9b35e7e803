//go:build !linux

package progress

import "runtime"

func yieldThread() { runtime.Gosched() }

func yieldGoroutine() { runtime.Gosched() }
