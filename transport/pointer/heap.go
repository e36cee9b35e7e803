package pointer

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weft-go/weft/transport"
)

// heapBacking is memory on the Go heap, shared by the goroutines of a process.
type heapBacking struct{ m *memory }

func newHeapMemory(size uint64) (*memory, error) {
	if err := checkSize(size); err != nil {
		return nil, err
	}
	size = roundUp(size, bindAlign)
	// Go's heap does not move: a suitable start inside a larger slice stays one.
	raw := make([]byte, size+bindAlign)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(raw))) % bindAlign
	m := &memory{kind: heapMemory, data: raw[skip : uint64(skip)+size : uint64(skip)+size], bell: newHeapBell()}
	m.back = heapBacking{m}
	return m, nil
}

func (b heapBacking) export(x *transport.Exported) error {
	x.Ref = b.m
	return nil
}

// free leaves it to the collector: peers may still hold the memory.
func (b heapBacking) free() error { return nil }

// heapBell is a doorbell between goroutines.
type heapBell struct {
	armed atomic.Bool
	rung  chan struct{}
	timer *time.Timer
}

func newHeapBell() *heapBell {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &heapBell{rung: make(chan struct{}, 1), timer: t}
}

func (b *heapBell) Arm() uint32 {
	b.armed.Store(true)
	select {
	case <-b.rung: // an old ring: the word is read again after Arm anyway
	default:
	}
	return 0
}

func (b *heapBell) Sleep(_ uint32, timeout time.Duration) {
	b.timer.Reset(timeout)
	select {
	case <-b.rung:
	case <-b.timer.C:
	}
	b.timer.Stop()
}

func (b *heapBell) Disarm() { b.armed.Store(false) }

func (b *heapBell) Ring() {
	select {
	case b.rung <- struct{}{}:
	default:
	}
}

func (b *heapBell) ringIfArmed() {
	if b.armed.Load() {
		b.Ring()
	}
}
