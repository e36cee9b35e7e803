package pointer

import (
	"fmt"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/mapped"
)

const (
	// bindAlign keeps counters at their alignment in whatever is bound.
	bindAlign = transport.CounterAlign
	// maxMemory bounds one allocation, and what a handle may claim.
	maxMemory = mapped.MaxBytes
)

// memory is a stretch of mapped memory with the doorbell of its owner. The
// doorbell's words lie behind the visible bytes.
type memory struct {
	kind memoryKind
	data []byte // visible bytes, aligned to bindAlign at least
	bell mapped.Bell
	back backing
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

func (m *memory) Load(offset uint64) uint64 { return mapped.Word(m.data, offset).Load() }

// checkSize refuses what no machine has, and what this one has not.
func checkSize(size uint64) error {
	switch err := mapped.CheckSize(size); err {
	case nil:
		return nil
	case mapped.ErrSize:
		return fmt.Errorf("pointer: allocate %d bytes: %w", size, transport.ErrBounds)
	default:
		return fmt.Errorf("pointer: allocate %d bytes: %w", size, err)
	}
}
