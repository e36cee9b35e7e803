package progress

import (
	"errors"
	"sync/atomic"

	"github.com/weft-go/weft/transport"
)

// space is the memory of a rank's endpoint: that which it was made with, from offset 0
// on, and what was bound behind later offsets since. It may be read by several
// goroutines while it grows.
type space struct {
	first transport.Memory
	size  uint64 // of first
	bytes []byte // of first
	more  atomic.Pointer[[]stretch]
}

// A stretch is memory from an offset on.
type stretch struct {
	from  uint64
	mem   transport.Memory
	bytes []byte
}

func (s *space) init(mem transport.Memory, size uint64) {
	s.first, s.size, s.bytes = mem, size, mem.Bytes()
}

// load reads the word at an offset.
func (s *space) load(offset uint64) uint64 {
	if offset < s.size {
		return s.first.Load(offset)
	}
	if m := s.find(offset); m != nil {
		return m.mem.Load(offset - m.from)
	}
	return 0 // not there yet
}

// at returns n bytes at an offset. They are in one memory.
func (s *space) at(offset, n uint64) []byte {
	if offset < s.size {
		return s.bytes[offset : offset+n : offset+n]
	}
	m := s.find(offset)
	offset -= m.from
	return m.bytes[offset : offset+n : offset+n]
}

func (s *space) find(offset uint64) *stretch {
	if l := s.more.Load(); l != nil {
		for i := range *l {
			if m := &(*l)[i]; offset >= m.from && offset-m.from < uint64(len(m.bytes)) {
				return m
			}
		}
	}
	return nil
}

// grow adds memory from an offset on.
func (s *space) grow(offset uint64, mem transport.Memory) {
	for {
		old := s.more.Load()
		var l []stretch
		if old != nil {
			l = append(l, *old...)
		}
		l = append(l, stretch{offset, mem, mem.Bytes()})
		if s.more.CompareAndSwap(old, &l) {
			return
		}
	}
}

// grown says whether memory was added.
func (s *space) grown() bool { return s.more.Load() != nil }

func (s *space) free() error {
	var errs []error
	if l := s.more.Load(); l != nil {
		for _, m := range *l {
			errs = append(errs, m.mem.Free())
		}
	}
	if s.first != nil {
		errs = append(errs, s.first.Free())
	}
	return errors.Join(errs...)
}
