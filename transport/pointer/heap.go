package pointer

import (
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/mapped"
)

// heapBacking is memory on the Go heap, shared by the goroutines of a process.
type heapBacking struct{ m *memory }

func newHeapMemory(size uint64) (*memory, error) {
	if err := checkSize(size); err != nil {
		return nil, err
	}
	m := &memory{kind: heapMemory, data: mapped.Heap(mapped.RoundUp(size, bindAlign), bindAlign), bell: mapped.NewHeapBell()}
	m.back = heapBacking{m}
	return m, nil
}

func (b heapBacking) export(x *transport.Exported) error {
	x.Ref = b.m
	return nil
}

// free leaves it to the collector: peers may still hold the memory.
func (b heapBacking) free() error { return nil }
