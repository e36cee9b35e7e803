package collectives

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// onProcessors has f start processes that may run on so many of the processors
// that this one may run on. It returns false if there are too few.
func onProcessors(t *testing.T, n int, f func()) bool {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var old, few unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &old))
	if old.Count() < n {
		return false
	}
	for cpu := 0; few.Count() < n; cpu++ {
		if old.IsSet(cpu) {
			few.Set(cpu)
		}
	}
	require.NoError(t, unix.SchedSetaffinity(0, &few))
	defer func() { require.NoError(t, unix.SchedSetaffinity(0, &old)) }()
	f() // children have this thread's mask
	return true
}
