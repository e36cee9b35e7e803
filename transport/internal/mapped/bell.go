package mapped

import (
	"slices"
	"sync"
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
	armed atomic.Int32  // goroutines that sleep or are about to
	seq   atomic.Uint32 // counts rings

	mu     sync.Mutex
	asleep []*sleeper
	idle   []*sleeper // to be used again
}

// A sleeper is one goroutine's sleep.
type sleeper struct {
	rung  chan struct{}
	timer *time.Timer
}

// NewHeapBell returns a doorbell between goroutines of one process.
func NewHeapBell() Bell { return &heapBell{} }

func (b *heapBell) Arm() uint32 {
	b.armed.Add(1)
	return b.seq.Load()
}

func (b *heapBell) Disarm() { b.armed.Add(-1) }

func (b *heapBell) Sleep(ticket uint32, timeout time.Duration) {
	s := b.lieDown(ticket, timeout)
	if s == nil {
		return
	}
	select {
	case <-s.rung:
	case <-s.timer.C:
	}
	b.getUp(s)
}

// lieDown returns a sleeper that the next ring wakes, or nil if there was one
// since the ticket.
func (b *heapBell) lieDown(ticket uint32, timeout time.Duration) *sleeper {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seq.Load() != ticket {
		return nil
	}
	var s *sleeper
	if last := len(b.idle) - 1; last >= 0 {
		s, b.idle = b.idle[last], b.idle[:last]
		s.timer.Reset(timeout)
	} else {
		s = &sleeper{rung: make(chan struct{}, 1), timer: time.NewTimer(timeout)}
	}
	b.asleep = append(b.asleep, s)
	return s
}

func (b *heapBell) getUp(s *sleeper) {
	s.timer.Stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.asleep, s)
	b.asleep = slices.Delete(b.asleep, i, i+1)
	select {
	case <-s.rung: // rung while the timer woke it
	default:
	}
	b.idle = append(b.idle, s)
}

func (b *heapBell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq.Add(1)
	for _, s := range b.asleep {
		select {
		case s.rung <- struct{}{}:
		default:
		}
	}
}

func (b *heapBell) RingIfArmed() {
	if b.armed.Load() != 0 {
		b.Ring()
	}
}
