package comm

import (
	"context"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport/progress"
)

// A Plain is a call that two words describe: on numbers, by an operator of package
// kernels if it has one, and with nothing else for the ranks to agree on. To pass a Call
// on, and hash it, takes as long as half of a call of a few bytes.
type Plain struct{ what, count uint64 }

// PlainCall describes a call, see [Call].
func PlainCall(k Collective, t kernels.Type, op kernels.Op, root, count int) Plain {
	return Plain{packWhat(k, t, op, root), uint64(count)}
}

// Call describes the same call.
func (p Plain) Call() Call { return packedCall{a: p.what, b: p.count}.unpack() }

// plainCalls remembers the last call, since the next is most often the same.
type plainCalls struct {
	last      Plain
	signature uint32
	// next is the history if the same call follows the history from.
	from, next uint32
}

// BeginPlain is Begin for a call that is plain.
func (c *Communicator) BeginPlain(ctx context.Context, p Plain) (*progress.Engine, error) {
	if c == nil || ctx == nil || c.started.pending.Load() != 0 {
		return c.Begin(ctx, p.Call())
	}
	s := callState(c.state.Load())
	if s.running() || !c.state.CompareAndSwap(uint64(s), uint64(s+2|1)) {
		return nil, c.refuse(p.Call(), ErrConcurrent)
	}
	if n := c.notices.Load(); c.stop.Err() != nil || n != 0 && (n&noticeLeavers != 0 || c.failedLater()) {
		return c.begun(ctx, p.Call(), nil, s)
	}
	seq := (s + 2).seq()
	c.log.store(seq, packedCall{a: p.what | seq<<48, b: p.count | seq<<48})
	q := &c.plain
	if q.last != p {
		q.last, q.signature = p, p.Call().signature(packedCall{a: p.what, b: p.count})
		q.next = extend(c.history, q.signature)
	} else if q.from != c.history {
		q.next = extend(c.history, q.signature)
	}
	c.history = q.next
	// Not needed before the next call: the processor does it while the message is on its way.
	q.from, q.next = c.history, extend(c.history, q.signature)
	c.ctx = ctx
	if err := ctx.Err(); err != nil {
		return nil, c.End(&progress.WaitError{Peer: c.rank, Err: err})
	}
	c.engine.Begin(ctx, c.timeout, seq, c.history)
	return c.engine, nil
}
