package comm

import "github.com/weft-go/weft/transport/progress"

// Stats returns what passed between this rank and each rank of the communicator
// so far: messages, and on a transport that may fail what failed and what was done
// about it. The entry of this rank itself is for multicast memory. It does not
// communicate; while a collective of the communicator runs it is [ErrConcurrent], and once
// the communicator has ended the error that ended it.
func (c *Communicator) Stats() (stats []progress.PeerStats, err error) {
	err = c.look(func(e *progress.Engine) {
		c.messages.mu.Lock()
		defer c.messages.mu.Unlock()
		stats = e.Stats()
	})
	return stats, err
}

// Waits returns how this rank has waited in collectives of the communicator so far.
// It does not communicate; while a collective runs it is [ErrConcurrent].
func (c *Communicator) Waits() (stats progress.WaitStats, err error) {
	err = c.look(func(e *progress.Engine) { stats = e.Waits() })
	return stats, err
}

// look has f look at the engine while no call uses it.
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
		if c.leavers.Load() {
			c.endLeave()
		}
	}()
	if err := c.stop.Err(); err != nil { // the memory may be given back
		return err
	}
	f(c.engine)
	return nil
}
