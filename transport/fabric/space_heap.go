package fabric

import (
	"sync"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/mapped"
)

// heapSpace is a device on the Go heap, for ranks that are goroutines of one
// process. Importers use the owner's.
type heapSpace struct {
	d     *device
	align uint64

	mu      sync.Mutex
	table   map[uint64]block
	regions map[uint64]region
	next    uint64
}

func newHeapSpace(d *device, align uint64) *heapSpace {
	return &heapSpace{d: d, align: align, table: map[uint64]block{}, regions: map[uint64]region{}}
}

func (s *heapSpace) blocks() uint64 { return 1 << 20 }

// block makes blocks when they are first asked for.
func (s *heapSpace) block(i uint64) (block, bool) {
	if i >= s.blocks() {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.table[i]
	if !ok {
		b = mapped.Heap(blockBytes, userBytes)
		s.table[i] = b
	}
	return b, true
}

func (s *heapSpace) alloc(size uint64, shadowed bool) (uint64, error) {
	r := region{data: mapped.Heap(size, s.align), bell: mapped.NewHeapBell()}
	if shadowed {
		r.shadow = newShadow(mapped.Heap(shadowHeadBytes, 8), mapped.Heap(shadowBytes(size), 8))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	s.regions[s.next] = r
	return s.next, nil
}

// free leaves the memory to the collector: an operation may be in the middle of it.
func (s *heapSpace) free(ref, _ uint64, _ bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.regions, ref)
	return nil
}

func (s *heapSpace) region(ref, size uint64, _ bool) (region, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.regions[ref]
	return r, ok && uint64(len(r.data)) == size
}

func (s *heapSpace) populate(region) {}

func (s *heapSpace) export(x *transport.Exported) error {
	x.Ref = s.d
	return nil
}

func (s *heapSpace) close() error   { return nil }
func (s *heapSpace) release() error { return nil }
