package pointer

import (
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/mapped"
)

// Shared memory is one anonymous file: the visible bytes, rounded up to whole
// pages, then one page with the doorbell's words.

type sharedBacking struct {
	file  *os.File // owner only
	bytes []byte
}

func newSharedMemory(size uint64) (*memory, error) {
	if err := checkSize(size); err != nil {
		return nil, err
	}
	visible := mapped.RoundUp(size, mapped.PageSize())
	total := int64(visible + mapped.PageSize())
	file, err := mapped.NewFile(total)
	if err != nil {
		return nil, fmt.Errorf("pointer: %d bytes of shared memory: %w", total, err)
	}
	return mapShared(file, visible, true)
}

// importSharedMemory maps memory of another process. It checks what it was
// given: the handle's sizes against the file, and the seals.
func importSharedMemory(x transport.Exported, h handle) (*memory, error) {
	if x.File == nil {
		return nil, fmt.Errorf("%w: no descriptor came with it (limit on open files?)", transport.ErrHandle)
	}
	size, err := mapped.SealedSize(x.File)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", transport.ErrHandle, err)
	}
	// The handle's size is at most maxMemory: no sum here overflows, except that
	// an int may have 32 bits.
	if h.memSize%mapped.PageSize() != 0 || h.memSize > math.MaxInt/2 || uint64(size) != h.memSize+mapped.PageSize() {
		return nil, fmt.Errorf("%w: %d bytes behind the descriptor, handle says %d", transport.ErrHandle, size, h.memSize)
	}
	m, err := mapShared(x.File, h.memSize, false)
	if err != nil && !errors.Is(err, unix.ENOMEM) { // read-only, for one
		err = fmt.Errorf("%w: %w", transport.ErrHandle, err)
	}
	return m, err
}

// enlargeFrom is the least memory, in bytes, that gets large pages. Before it makes one the
// kernel has each processor put away what it has noted of pages, one caller after the other.
// That is a millisecond, but seconds on a machine whose processors are taken by others: too
// much for the memory of a communicator, which is less than this, as programs make many.
const enlargeFrom = 8 << 20

func mapShared(file *os.File, visible uint64, owner bool) (*memory, error) {
	b, err := mapped.Map(file, int(visible+mapped.PageSize()), !owner)
	if err != nil {
		if owner {
			file.Close()
		}
		return nil, fmt.Errorf("pointer: map %d bytes of shared memory: %w", visible, err)
	}
	if owner {
		if visible >= enlargeFrom {
			mapped.Enlarge(file, b)
		}
		if err := mapped.Allocate(file, 0, int64(len(b))); err != nil {
			return nil, fmt.Errorf("pointer: %d bytes of shared memory: %w", len(b), errors.Join(err, mapped.Unmap(b), file.Close()))
		}
		mapped.Populate(b)
	}
	back := &sharedBacking{bytes: b}
	if owner {
		back.file = file
	}
	return &memory{
		kind: sharedMemory,
		data: b[:visible:visible],
		bell: mapped.SharedBell(b, visible),
		back: back,
	}, nil
}

func (s *sharedBacking) export(x *transport.Exported) error {
	if s.file == nil {
		return transport.ErrNotOwner
	}
	f, err := mapped.Duplicate(s.file)
	if err != nil {
		return fmt.Errorf("pointer: duplicate descriptor: %w", err)
	}
	x.File = f
	return nil
}

func (s *sharedBacking) free() error {
	if s.bytes == nil {
		return nil
	}
	err := mapped.Unmap(s.bytes)
	s.bytes = nil
	if s.file != nil {
		if cerr := s.file.Close(); err == nil {
			err = cerr
		}
	}
	return err
}
