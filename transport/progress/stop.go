package progress

import (
	"sync"
	"sync/atomic"
)

// Stop is the state "this communicator does not go on", shared by all that
// wait for it. The first error set stays.
type Stop struct {
	err atomic.Pointer[error]

	mu    sync.Mutex
	bells map[int]func() // by number, so that they can be removed
	next  int
	done  chan struct{}
}

// NewStop returns a Stop that is not set.
func NewStop() *Stop { return &Stop{bells: map[int]func(){}, done: make(chan struct{})} }

// Set stops with err, which must not be nil, and wakes all that wait. It says
// whether this call was the first.
func (s *Stop) Set(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.err.CompareAndSwap(nil, &err) {
		return false
	}
	close(s.done)
	for _, ring := range s.bells {
		ring()
	}
	return true
}

// Err returns the error that Set was first called with, or nil.
func (s *Stop) Err() error {
	if p := s.err.Load(); p != nil {
		return *p
	}
	return nil
}

// Done is closed when Set is called.
func (s *Stop) Done() <-chan struct{} { return s.done }

// OnSet has ring called when Set is called, or now if it was, until the
// returned function is called. ring must not block or use s.
func (s *Stop) OnSet(ring func()) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.next
	s.next++
	s.bells[i] = ring
	if s.Err() != nil {
		ring()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.bells, i)
	}
}
