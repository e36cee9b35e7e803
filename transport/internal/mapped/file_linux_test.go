package mapped

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

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

// TestMapLarge: memory that has room for large pages is aligned to them, nothing is left
// of the room that this takes, and pages that are large are so for who maps the file
// later as well.
func TestMapLarge(t *testing.T) {
	n := 2*largePage + int(PageSize())
	file, err := NewFile(int64(n))
	require.NoError(t, err)
	defer file.Close()
	own, err := Map(file, n, false)
	require.NoError(t, err)
	defer Unmap(own)
	large := Enlarge(file, own)
	require.NoError(t, Allocate(file, 0, int64(n)))
	Populate(own)
	peer, err := Map(file, n, true)
	require.NoError(t, err)
	defer Unmap(peer)

	for _, b := range [][]byte{own, peer} {
		from := uintptr(unsafe.Pointer(&b[0]))
		require.Zero(t, from%largePage)
		eachMapping(t, func(line string, a, z uintptr) {
			if strings.Contains(line, "---p") {
				require.False(t, a == from+uintptr(n) || z == from, line)
			}
		})
	}
	for i, b := range own {
		if b != 0 {
			t.Fatal(i, b)
		}
		own[i] = byte(i/largePage + i)
	}
	require.True(t, bytes.Equal(own, peer))
	if !large {
		t.Skip("no large pages here")
	}
	require.Equal(t, 2*2*largePage, pmdMapped(t))
}

// eachMapping calls f for what this process has mapped.
func eachMapping(t *testing.T, f func(line string, from, to uintptr)) {
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	for line := range strings.Lines(string(maps)) {
		var from, to uintptr
		_, err := fmt.Sscanf(line, "%x-%x", &from, &to)
		require.NoError(t, err)
		f(line, from, to)
	}
}

// pmdMapped is how many bytes of shared memory are mapped by large pages.
func pmdMapped(t *testing.T) (sum int) {
	smaps, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	for line := range strings.Lines(string(smaps)) {
		var kib int
		if n, _ := fmt.Sscanf(line, "ShmemPmdMapped: %d kB", &kib); n == 1 {
			sum += kib << 10
		}
	}
	return sum
}
