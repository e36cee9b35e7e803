package fabric

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestDefaultArenaUnderLimits: where the system grants less than the default arena, a
// smaller one is made; one that was asked for is not.
func TestDefaultArenaUnderLimits(t *testing.T) {
	const variable = "WEFT_TEST_LIMIT"
	if limit := os.Getenv(variable); limit != "" {
		resource, bytes := unix.RLIMIT_AS, uint64(leastDefault)*10
		if limit == "files" {
			resource, bytes = unix.RLIMIT_FSIZE, uint64(leastDefault)*2-1
		}
		var l unix.Rlimit
		require.NoError(t, unix.Getrlimit(resource, &l))
		l.Cur = bytes
		require.NoError(t, unix.Setrlimit(resource, &l))
		f, err := NewShared(WithFaults(""))
		require.NoError(t, err)
		m, err := f.Alloc(1 << 20)
		require.NoError(t, err)
		size := len(f.space.(*sharedSpace).bytes)
		require.NoError(t, f.Close())
		require.NoError(t, m.Free())
		fmt.Println("the arena has", size)
		if limit == "address space" {
			f, err = NewShared(WithFaults(""), WithArena(bytes))
			require.NoError(t, err)
			_, err = f.Alloc(1 << 20)
			require.ErrorIs(t, err, unix.ENOMEM)
		}
		return
	}
	for _, limit := range []string{"address space", "files"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestDefaultArenaUnderLimits$", "-test.count=1")
		cmd.Env = append(os.Environ(), variable+"="+limit)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", limit, out)
		require.True(t, strings.Contains(string(out), fmt.Sprintln("the arena has", leastDefault)), "%s: %s", limit, out)
	}
}
