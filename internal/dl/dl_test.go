//go:build linux && !android && (amd64 || arm64) && !nocuda

package dl_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/internal/dl"
)

// c is the address of one of libc's functions, which every process here has.
func c(t *testing.T, function string) uintptr {
	t.Helper()
	require.True(t, dl.Built)
	libc, err := dl.Open("libc.so.6")
	require.NoError(t, err)
	address := dl.Symbol(libc, function)
	require.NotZero(t, address)
	return address
}

func TestCall(t *testing.T) {
	dst, src := []byte("12345678"), []byte("abcdefgh")
	to := uintptr(unsafe.Pointer(&dst[0]))
	require.Equal(t, to, dl.Call(c(t, "memcpy"), uintptr(unsafe.Pointer(&dst[0])), uintptr(unsafe.Pointer(&src[0])), 3))
	require.Equal(t, "abc45678", string(dst))
}

func TestMissing(t *testing.T) {
	_, err := dl.Open("libnowhere-to-be-found.so.1")
	require.ErrorContains(t, err, "libnowhere-to-be-found.so.1")
	libc, err := dl.Open("libc.so.6")
	require.NoError(t, err)
	require.Zero(t, dl.Symbol(libc, "weft_has_no_such_function"))
}

// there is where TestEscape's text is not on a stack.
var there = [4]byte{'a', 'b'}

// TestEscape holds that what the arguments point to is never on the stack of the
// goroutine, which moves when it grows: a variable of a function's is allocated.
func TestEscape(t *testing.T) {
	strlen := c(t, "strlen")
	global := func() int { return int(dl.Call(strlen, uintptr(unsafe.Pointer(&there)))) }
	local := func() int { here := [4]byte{'a', 'b'}; return int(dl.Call(strlen, uintptr(unsafe.Pointer(&here)))) }
	require.Equal(t, 2, global())
	require.Equal(t, 2, local())
	none := testing.AllocsPerRun(100, func() { global() })
	require.Equal(t, none+1, testing.AllocsPerRun(100, func() { local() }))
}
