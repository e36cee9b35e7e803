package comm

import "github.com/weft-go/weft/transport/progress"

// Stats returns what passed between this rank and each rank of the communicator
// so far: messages, and on a transport that may fail what failed and what was done
// about it. The entry of this rank itself is for multicast memory. It does not
// communicate. While a collective of the communicator runs it is [ErrConcurrent]; once the
// communicator has ended, or is closed, it returns what there was until then.
func (c *Communicator) Stats() (stats []progress.PeerStats, err error) {
	err = c.look(func(e *progress.Engine) {
		c.messages.mu.Lock()
		defer c.messages.mu.Unlock()
		stats = e.Stats()
	})
	return stats, err
}

// Waits returns how this rank has waited in collectives of the communicator so far.
// It does not communicate. While a collective runs it is [ErrConcurrent]; once the
// communicator has ended, or is closed, it returns what there was until then.
func (c *Communicator) Waits() (stats progress.WaitStats, err error) {
	err = c.look(func(e *progress.Engine) { stats = e.Waits() })
	return stats, err
}

// look has f look at the engine while no call uses it. The communicator may have
// ended, and its memory be given back: f reads what the engine itself remembers.
func (c *Communicator) look(f func(e *progress.Engine)) error {
	if c == nil {
		return ErrNil
	}
	s := callState(c.state.Load())
	if s.running() || !c.state.CompareAndSwap(uint64(s), uint64(s|1)) {
		return ErrConcurrent
	}
	defer func() {
		c.state.Store(uint64(s))
		if c.hasLeavers() {
			c.endLeave()
		}
	}()
	f(c.engine)
	return nil
}
