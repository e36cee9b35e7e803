package comm

import (
	"slices"
	"unsafe"

	"github.com/weft-go/weft/transport"
)

// A Place says where in symmetric memory a slice lies. All ranks know a buffer by
// the same number.
type Place struct {
	Buffer uint32 // from 1; 0: the slice is in none
	Offset uint64 // in bytes
}

// placed is a buffer that was mapped, with what a Place is found by.
type placed struct {
	number uint32
	ranks  [][]byte // the memory of each rank as this rank sees it
	buf    *buffer
}

// maxPlaced bounds the buffers that places are looked for in.
const maxPlaced = 1 << 10

// place makes a buffer known to PlaceOf. Its number is the same on all ranks,
// which allocate together.
func (c *Communicator) place(b *buffer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.allocs++
	m, ok := c.world.transport.(transport.Mapper)
	if !ok {
		return
	}
	c.mapped.Store(true)
	p := placed{number: c.allocs, ranks: make([][]byte, len(b.peers)), buf: b}
	for r, e := range b.peers {
		var err error
		if e == nil {
			p.ranks[r] = b.mem.Bytes()
		} else if p.ranks[r], err = m.Map(transport.Handle{ID: e.ID()}, e.Size()); err != nil {
			return
		}
	}
	var old []placed
	if l := c.places.Load(); l != nil {
		old = *l
	}
	if len(old) < maxPlaced {
		l := append(slices.Clip(old), p)
		c.places.Store(&l)
	}
}

// unplace forgets a buffer. c.mu is held.
func (c *Communicator) unplace(b *buffer) {
	if l := c.places.Load(); l != nil {
		n := slices.DeleteFunc(slices.Clone(*l), func(p placed) bool { return p.buf == b })
		c.places.Store(&n)
	}
}

// HasShorts says whether the ranks map each other's memory, and are so few that calls on it
// need no lanes.
func (c *Communicator) HasShorts() bool { return c.engine.HasShorts() }

// HasPlaces says whether symmetric memory was ever allocated on the communicator that
// peers reach by pointers. All ranks say the same.
func (c *Communicator) HasPlaces() bool { return c.mapped.Load() }

// PlaceOf returns where a slice lies in the communicator's symmetric memory.
func (c *Communicator) PlaceOf(b []byte) Place {
	l := c.places.Load()
	if l == nil || len(b) == 0 {
		return Place{}
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	for i := range *l {
		p := &(*l)[i]
		own := p.ranks[c.rank]
		if from := at - uintptr(unsafe.Pointer(unsafe.SliceData(own))); from < uintptr(len(own)) && uintptr(len(b)) <= uintptr(len(own))-from {
			return Place{p.number, uint64(from)}
		}
	}
	return Place{}
}

// At returns the n bytes of a rank's memory at a place that the rank told, or nil
// if there are none.
func (c *Communicator) At(rank int, at Place, n int) []byte {
	l := c.places.Load()
	if l == nil {
		return nil
	}
	for i := range *l {
		if p := &(*l)[i]; p.number == at.Buffer {
			b := p.ranks[rank]
			if at.Offset > uint64(len(b)) || uint64(n) > uint64(len(b))-at.Offset {
				return nil
			}
			return b[at.Offset:][:n:n]
		}
	}
	return nil
}
