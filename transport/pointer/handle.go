package pointer

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/weft-go/weft/transport"
)

// An exported handle, little-endian:
//
//	0   8 bytes  magic
//	8   u32      kind of memory
//	12  u32      flags
//	16  u64      endpoint size
//	24  u64      memory size, at least the endpoint size
//	32  32 bytes zero
type handle struct {
	kind    memoryKind
	counted bool
	size    uint64
	memSize uint64
}

type memoryKind uint32

const (
	heapMemory memoryKind = iota + 1
	sharedMemory
)

var handleMagic = [8]byte{'w', 'e', 'f', 't', 'p', 't', 'r', 1}

const flagCounted = 1

func (h handle) encode() (b [transport.HandleBytes]byte) {
	copy(b[:], handleMagic[:])
	binary.LittleEndian.PutUint32(b[8:], uint32(h.kind))
	if h.counted {
		binary.LittleEndian.PutUint32(b[12:], flagCounted)
	}
	binary.LittleEndian.PutUint64(b[16:], h.size)
	binary.LittleEndian.PutUint64(b[24:], h.memSize)
	return b
}

func decodeHandle(b [transport.HandleBytes]byte) (handle, error) {
	if !bytes.Equal(b[:8], handleMagic[:]) {
		return handle{}, fmt.Errorf("%w: wrong magic", transport.ErrHandle)
	}
	h := handle{
		kind:    memoryKind(binary.LittleEndian.Uint32(b[8:])),
		counted: binary.LittleEndian.Uint32(b[12:]) == flagCounted,
		size:    binary.LittleEndian.Uint64(b[16:]),
		memSize: binary.LittleEndian.Uint64(b[24:]),
	}
	switch {
	case h.kind != heapMemory && h.kind != sharedMemory:
		return handle{}, fmt.Errorf("%w: memory kind %d", transport.ErrHandle, h.kind)
	case binary.LittleEndian.Uint32(b[12:]) > flagCounted:
		return handle{}, fmt.Errorf("%w: unknown flags", transport.ErrHandle)
	case h.size == 0 || h.size%bindAlign != 0 || h.size > h.memSize || h.memSize > maxMemory:
		return handle{}, fmt.Errorf("%w: sizes %d, %d", transport.ErrHandle, h.size, h.memSize)
	case !bytes.Equal(b[32:], make([]byte, 32)):
		return handle{}, fmt.Errorf("%w: trailing bytes", transport.ErrHandle)
	}
	return h, nil
}
