package pointer

import (
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/weft-go/weft/transport"
)

const (
	// bindAlign keeps counters at their alignment in whatever is bound.
	bindAlign = transport.CounterAlign
	// maxMemory bounds one allocation, and what a handle may claim.
	maxMemory = 1 << 46
)

// memory is a stretch of mapped memory with the doorbell of its owner. The
// doorbell's words lie behind the visible bytes.
type memory struct {
	kind memoryKind
	data []byte // visible bytes, aligned to bindAlign at least
	bell bell
	back backing
}

// A bell is a doorbell that others ring only if its owner sleeps.
type bell interface {
	transport.Doorbell
	// ringIfArmed rings if the owner sleeps or is about to.
	ringIfArmed()
}

// A backing is where memory comes from.
type backing interface {
	// export fills in what a peer needs besides the handle.
	export(x *transport.Exported) error
	free() error
}

func (m *memory) Size() uint64                 { return uint64(len(m.data)) }
func (m *memory) Bytes() []byte                { return m.data }
func (m *memory) Doorbell() transport.Doorbell { return m.bell }
func (m *memory) Free() error                  { return m.back.free() }

func (m *memory) Load(offset uint64) uint64 { return word(m.data, offset).Load() }

// word returns the 8-byte word at offset, which is in range and aligned.
func word(b []byte, offset uint64) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(b[offset : offset+8])))
}

func word32(b []byte, offset uint64) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(unsafe.SliceData(b[offset : offset+4])))
}

func roundUp(n, to uint64) uint64 { return (n + to - 1) / to * to }

// checkSize refuses what no machine has, and what this one has not: asking for it
// would end the process instead of returning an error.
func checkSize(size uint64) error {
	if size == 0 || size > maxMemory || size > math.MaxInt/2 {
		return fmt.Errorf("pointer: allocate %d bytes: %w", size, transport.ErrBounds)
	}
	if err := checkInstalled(size); err != nil {
		return fmt.Errorf("pointer: allocate %d bytes: %w", size, err)
	}
	return nil
}
