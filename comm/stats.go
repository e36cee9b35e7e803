package comm

import "github.com/weft-go/weft/transport/progress"

// Stats returns what passed between this rank and each rank of the communicator
// so far: messages, and on a transport that may fail what failed and what was done
// about it. The entry of this rank itself is for multicast memory. It does not
// communicate; while a collective of the communicator runs it is [ErrConcurrent].
func (c *Communicator) Stats() ([]progress.PeerStats, error) {
	if c == nil {
		return nil, ErrNil
	}
	s := callState(c.state.Load())
	if s.running() || !c.state.CompareAndSwap(uint64(s), uint64(s|1)) {
		return nil, ErrConcurrent
	}
	defer func() {
		c.state.Store(uint64(s))
		if c.leavers.Load() {
			c.endLeave()
		}
	}()
	if err := c.stop.Err(); err != nil { // the memory may be given back
		return nil, err
	}
	c.messages.mu.Lock()
	defer c.messages.mu.Unlock()
	return c.engine.Stats(), nil
}
