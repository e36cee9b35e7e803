package mapped

import (
	"sync/atomic"
	"time"

	"github.com/weft-go/weft/transport"
)

// A Bell is a doorbell that others ring only if its owner sleeps.
type Bell interface {
	transport.Doorbell
	// RingIfArmed rings if the owner sleeps or is about to.
	RingIfArmed()
}

// heapBell is a doorbell between goroutines.
type heapBell struct {
	armed atomic.Bool
	rung  chan struct{}
	timer *time.Timer
}

// NewHeapBell returns a doorbell between goroutines of one process.
func NewHeapBell() Bell {
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

func (b *heapBell) RingIfArmed() {
	if b.armed.Load() {
		b.Ring()
	}
}
