package comm

import (
	"context"
	"sync"

	"github.com/weft-go/weft/comm/bootstrap"
	"github.com/weft-go/weft/transport/progress"
)

// detours bring messages of the engine to a peer over the control channel, when
// the link between the two does not work. It is slow, and right.
type detours struct {
	sending sync.Mutex // held while the parts of one message are sent

	mu     sync.Mutex
	engine *progress.Engine // that takes what comes; nil before it is made and after it is closed
	parts  map[int][]byte   // by rank: what came of a message that is not whole
}

// Seq of a msgDetour.
const (
	detourMore = iota // another part of the same message follows
	detourLast
)

// detour is the Detour of the engine. Nothing waits: lanes have few cells, so that
// little can be under way.
func (c *Communicator) detour(_ context.Context, peer int, m []byte) error {
	d := &c.detours
	d.sending.Lock()
	defer d.sending.Unlock()
	for {
		n, seq := len(m), uint64(detourLast)
		if n > bootstrap.MaxData {
			n, seq = bootstrap.MaxData, detourMore
		}
		if err := c.send(peer, bootstrap.Message{Kind: msgDetour, Seq: seq, Data: m[:n]}); err != nil {
			return err
		}
		if m = m[n:]; seq == detourLast {
			return nil
		}
	}
}

// onDetour takes a part of what a peer's engine sent.
func (c *Communicator) onDetour(rank int, m bootstrap.Message) {
	d := &c.detours
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.engine == nil {
		return
	}
	if d.parts == nil {
		d.parts = map[int][]byte{}
	}
	whole := append(d.parts[rank], m.Data...)
	if m.Seq == detourMore && len(whole) <= maxDetour {
		d.parts[rank] = whole
		return
	}
	d.parts[rank] = whole[:0]
	if err := d.engine.Deliver(rank, whole); err != nil {
		c.logger.Warn("ignored", "from", rank, "error", err)
	}
}

// maxDetour bounds what is put together: more is no message of an engine.
const maxDetour = 1 << 20

// deliverTo says which engine takes what comes, if any.
func (d *detours) deliverTo(e *progress.Engine) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.engine = e
}
