package mapped

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestPopulate: populated memory is written to without page faults.
func TestPopulate(t *testing.T) {
	const pages = 1024
	size := pages * int(PageSize())
	file, err := NewFile(int64(size))
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, Allocate(file, 0, int64(size)))
	faults := func(populate bool) int64 {
		b, err := Map(file, size, populate)
		require.NoError(t, err)
		defer Unmap(b)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var before, after unix.Rusage
		require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &before))
		for at := uint64(0); at < uint64(size); at += PageSize() {
			Word(b, at).Store(at)
		}
		require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &after))
		return after.Minflt - before.Minflt
	}
	require.GreaterOrEqual(t, faults(false), int64(pages))
	require.Less(t, faults(true), int64(pages/8))
}
