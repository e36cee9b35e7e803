package device

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/weft-go/weft/internal/cuda"
)

// An export, little-endian:
//
//	0   8 bytes   magic
//	8   u64       kind
//	16  u64       bytes
//	24  u64       offset in the allocation
//	32  u64       bytes of the allocation
//	40  16 bytes  UUID of the device
//	56  64 bytes  handle of CUDA's IPC, or zeros
type export struct {
	kind   exportKind
	bytes  int
	offset int
	whole  int
	uuid   cuda.UUID
	ipc    cuda.IPCHandle
}

type exportKind uint64

const (
	kindRef exportKind = iota + 1 // of the same process
	kindFD
	kindIPC
)

const exportBytes = 120

var exportMagic = [8]byte{'w', 'e', 'f', 't', 'd', 'e', 'v', 1}

func (x export) encode() []byte {
	b := append([]byte(nil), exportMagic[:]...)
	for _, v := range []int{int(x.kind), x.bytes, x.offset, x.whole} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	b = append(b, x.uuid[:]...)
	return append(b, x.ipc[:]...)
}

func decodeExport(b []byte) (x export, err error) {
	if len(b) != exportBytes || !bytes.Equal(b[:8], exportMagic[:]) {
		return x, fmt.Errorf("%w: %d bytes", ErrExport, len(b))
	}
	var v [4]uint64
	for i := range v {
		v[i] = binary.LittleEndian.Uint64(b[8+8*i:])
		if v[i] > maxBytes {
			return x, fmt.Errorf("%w: %d", ErrExport, v[i])
		}
	}
	x.kind, x.bytes, x.offset, x.whole = exportKind(v[0]), int(v[1]), int(v[2]), int(v[3])
	copy(x.uuid[:], b[40:])
	copy(x.ipc[:], b[56:])
	switch {
	case x.kind < kindRef || x.kind > kindIPC:
		return x, fmt.Errorf("%w: kind %d", ErrExport, x.kind)
	case x.bytes == 0 || x.bytes > x.whole || x.offset > x.whole-x.bytes:
		return x, fmt.Errorf("%w: %d bytes at %d of %d", ErrExport, x.bytes, x.offset, x.whole)
	}
	return x, nil
}
