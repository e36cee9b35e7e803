package pointer

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport"
)

func TestHandleRoundTrip(t *testing.T) {
	for _, h := range []handle{
		{heapMemory, false, 256, 256}, {sharedMemory, true, 4096, 8192}, {sharedMemory, false, maxMemory, maxMemory},
	} {
		got, err := decodeHandle(h.encode())
		require.NoError(t, err)
		require.Equal(t, h, got)
	}
}

func TestDecodeHandleRefuses(t *testing.T) {
	good := handle{sharedMemory, true, 4096, 8192}.encode()
	set := func(at int, v uint64, n int) [transport.HandleBytes]byte {
		b := good
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], v)
		copy(b[at:], w[:n])
		return b
	}
	for _, c := range []struct {
		name string
		b    [transport.HandleBytes]byte
	}{
		{"nothing", [transport.HandleBytes]byte{}},
		{"version", set(7, 2, 1)},
		{"kind 0", set(8, 0, 4)},
		{"kind 3", set(8, 3, 4)},
		{"flags", set(12, 2, 4)},
		{"more flags", set(12, 3, 4)},
		{"no size", set(16, 0, 8)},
		{"odd size", set(16, 4097, 8)},
		{"size beyond memory", set(16, 8192+256, 8)},
		{"huge size", set(16, 1<<64-256, 8)},
		{"huge memory", set(24, maxMemory+4096, 8)},
		{"largest memory", set(24, 1<<64-1, 8)},
		{"trailing", set(32, 1, 1)},
		{"last byte", set(63, 1, 1)},
	} {
		_, err := decodeHandle(c.b)
		require.ErrorIs(t, err, transport.ErrHandle, c.name)
	}
}
