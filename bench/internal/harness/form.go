package harness

import (
	"context"
	"fmt"

	"github.com/weft-go/weft/collectives"
)

// A form is how the library is called.
type form string

const (
	blocking   form = "blocking"
	persistent form = "persistent" // set up before, and run
	started    form = "started"    // started, and waited for at once

	// On GPUs:
	graph  form = "graph"  // captured in graphs, and those launched
	stream form = "stream" // enqueued one by one
)

func parseForm(s string) (form, error) {
	switch f := form(s); f {
	case blocking, persistent, started, graph, stream:
		return f, nil
	}
	return "", fmt.Errorf("%q; known are blocking, persistent, started, and on GPUs graph and stream", s)
}

// mostPersistent bounds the slots, and with them the calls that are set up.
const mostPersistent = 4096

// period is the number of calls after which slot and root come again.
func (p *pass) period() int64 {
	if !p.coll.rooted || p.root >= 0 {
		return p.slots
	}
	a, b := p.slots, int64(p.ranks)
	for b != 0 {
		a, b = b, a%b
	}
	return p.slots / a * int64(p.ranks)
}

func (w *weft[T]) call(ctx context.Context, dst, src []T, root int) error {
	p := w.p
	switch p.coll.kind {
	case allReduce:
		return collectives.AllReduce(ctx, w.c, dst, src, p.op)
	case reduce:
		return collectives.Reduce(ctx, w.c, dst, src, p.op, root)
	case broadcast:
		return collectives.Broadcast(ctx, w.c, dst, root)
	case reduceScatter:
		return collectives.ReduceScatterBlock(ctx, w.c, dst, src, p.op)
	case allGather:
		return collectives.AllGather(ctx, w.c, dst, src)
	case allToAll:
		return collectives.AllToAll(ctx, w.c, dst, src)
	case gather:
		return collectives.Gather(ctx, w.c, dst, src, root)
	case scatter:
		return collectives.Scatter(ctx, w.c, dst, src, root)
	case scan:
		return collectives.Scan(ctx, w.c, dst, src, p.op)
	}
	return collectives.Barrier(ctx, w.c)
}

func (w *weft[T]) start(ctx context.Context, dst, src []T, root int) *collectives.Request {
	p := w.p
	switch p.coll.kind {
	case allReduce:
		return collectives.StartAllReduce(ctx, w.c, dst, src, p.op)
	case reduce:
		return collectives.StartReduce(ctx, w.c, dst, src, p.op, root)
	case broadcast:
		return collectives.StartBroadcast(ctx, w.c, dst, root)
	case reduceScatter:
		return collectives.StartReduceScatterBlock(ctx, w.c, dst, src, p.op)
	case allGather:
		return collectives.StartAllGather(ctx, w.c, dst, src)
	case allToAll:
		return collectives.StartAllToAll(ctx, w.c, dst, src)
	case gather:
		return collectives.StartGather(ctx, w.c, dst, src, root)
	case scatter:
		return collectives.StartScatter(ctx, w.c, dst, src, root)
	case scan:
		return collectives.StartScan(ctx, w.c, dst, src, p.op)
	}
	return collectives.StartBarrier(ctx, w.c)
}

func (w *weft[T]) setUp(dst, src []T, root int) (*collectives.Persistent, error) {
	p := w.p
	switch p.coll.kind {
	case allReduce:
		return collectives.NewAllReduce(w.c, dst, src, p.op)
	case reduce:
		return collectives.NewReduce(w.c, dst, src, p.op, root)
	case broadcast:
		return collectives.NewBroadcast(w.c, dst, root)
	case reduceScatter:
		return collectives.NewReduceScatterBlock(w.c, dst, src, p.op)
	case allGather:
		return collectives.NewAllGather(w.c, dst, src)
	case allToAll:
		return collectives.NewAllToAll(w.c, dst, src)
	case gather:
		return collectives.NewGather(w.c, dst, src, root)
	case scatter:
		return collectives.NewScatter(w.c, dst, src, root)
	case scan:
		return collectives.NewScan(w.c, dst, src, p.op)
	}
	return collectives.NewBarrier(w.c)
}
