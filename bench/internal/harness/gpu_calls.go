package harness

import (
	"context"
	"errors"
	"time"

	"github.com/weft-go/weft/bench/peers/nccl"
	"github.com/weft-go/weft/collectives"
	"github.com/weft-go/weft/internal/cuda"
	"github.com/weft-go/weft/kernels"
)

const (
	// graphCalls are the calls of a graph, and mostGraphs bounds the graphs of a row.
	graphCalls = 20
	mostGraphs = 8
)

// gpuSlots reduces a number of slots to one that graphs come round in: a multiple of their
// calls, or a divisor.
func gpuSlots(slots int64) int64 {
	if slots >= graphCalls {
		return min(slots/graphCalls, mostGraphs) * graphCalls
	}
	for graphCalls%slots != 0 {
		slots--
	}
	return slots
}

// gpuContender enqueues calls on the GPU's stream: one by one, or by graphs that were captured
// from the stream before. Graph i has the calls i·graphCalls and following, and is launched for
// those that come again after the last graph.
type gpuContender struct {
	g       *gpu
	p       *pass
	enqueue func(dst, src cuda.Ptr, root int) error
	within  func(func() error) error // what a loop of calls is made in, or nil
	graphs  []*cuda.GraphExec
}

// newGPU makes a contender, and its graphs if it is to have any.
func (g *gpu) newGPU(ctx context.Context, k *gpuContender, f form) (contender, error) {
	// The first call may have things to set up, which a graph should not have to.
	if _, err := k.run(ctx, 0, 1); err != nil || f != graph {
		return k, err
	}
	for at := int64(0); at < k.p.wrap; at += graphCalls {
		x, err := k.capture(at)
		if err != nil {
			return nil, errors.Join(err, k.close())
		}
		k.graphs = append(k.graphs, x)
	}
	return k, nil
}

// capture makes a graph of calls first and following.
func (k *gpuContender) capture(first int64) (*cuda.GraphExec, error) {
	if err := k.g.stream.BeginCapture(); err != nil {
		return nil, err
	}
	err := k.calls(first, graphCalls)
	captured, e := k.g.stream.EndCapture()
	if err = errors.Join(err, e); err != nil {
		return nil, err
	}
	x, err := captured.Instantiate()
	if err = errors.Join(err, captured.Destroy()); err != nil {
		return nil, err
	}
	return x, x.Upload(k.g.stream)
}

// calls enqueues calls one by one.
func (k *gpuContender) calls(first int64, calls int) error {
	loop := func() error {
		for call := first; call < first+int64(calls); call++ {
			src, dst := k.p.addresses(call)
			if err := k.enqueue(dst, src, k.p.rootOf(call)); err != nil {
				return err
			}
		}
		return nil
	}
	if k.within != nil {
		return k.within(loop)
	}
	return loop()
}

// unit is the number of calls that are made at once.
func (k *gpuContender) unit() int {
	if len(k.graphs) > 0 {
		return graphCalls
	}
	return 1
}

func (k *gpuContender) close() error {
	var err error
	for _, x := range k.graphs {
		err = errors.Join(err, x.Destroy())
	}
	k.graphs = nil
	return err
}

// run launches graphs, if the calls are whole ones.
func (k *gpuContender) run(ctx context.Context, first int64, calls int) (time.Duration, error) {
	if len(k.graphs) == 0 || calls%graphCalls != 0 || first%graphCalls != 0 {
		return k.g.time(ctx, func() error { return k.calls(first, calls) })
	}
	return k.g.time(ctx, func() error {
		at := int(first / graphCalls % int64(len(k.graphs)))
		for range calls / graphCalls {
			if err := k.graphs[at].Launch(k.g.stream); err != nil {
				return err
			}
			if at++; at == len(k.graphs) {
				at = 0
			}
		}
		return nil
	})
}

// weft calls the library as programs do.
func (g *gpu) weft(p *pass) *gpuContender {
	slice := func(at cuda.Ptr, n int64) collectives.DeviceSlice {
		return collectives.DeviceSlice{Ptr: uintptr(at), Count: int(n), Type: p.typ}
	}
	c, stream := g.c, g.stream.Handle()
	return &gpuContender{g: g, p: p, enqueue: func(dstAt, srcAt cuda.Ptr, root int) error {
		dst, src := slice(dstAt, p.dst), slice(srcAt, p.src)
		switch p.coll.kind {
		case allReduce:
			return collectives.AllReduceDevice(c, dst, src, p.op, stream)
		case reduce:
			return collectives.ReduceDevice(c, dst, src, p.op, root, stream)
		case broadcast:
			return collectives.BroadcastDevice(c, dst, root, stream)
		case reduceScatter:
			return collectives.ReduceScatterBlockDevice(c, dst, src, p.op, stream)
		case allGather:
			return collectives.AllGatherDevice(c, dst, src, stream)
		case allToAll:
			return collectives.AllToAllDevice(c, dst, src, stream)
		}
		return collectives.BarrierDevice(c, stream)
	}}
}

// peer calls NCCL, all calls of a loop with the device current once. It is nil for what NCCL
// has not.
func (g *gpu) peer(p *pass) *gpuContender {
	if p.coll.kind == barrier || p.coll.kind == allToAll && p.inPlace || p.coll.reduces && !nccl.Reduces(p.typ, p.op) || !nccl.Moves(p.typ) {
		return nil
	}
	n, count := g.nccl, int(p.count)
	return &gpuContender{g: g, p: p, within: n.Do, enqueue: func(dst, src cuda.Ptr, root int) error {
		switch p.coll.kind {
		case allReduce:
			return n.AllReduce(dst, src, count, p.typ, p.op, g.stream)
		case reduce:
			return n.Reduce(dst, src, count, p.typ, p.op, root, g.stream)
		case broadcast:
			return n.Broadcast(dst, count, p.typ, root, g.stream)
		case reduceScatter:
			return n.ReduceScatter(dst, src, count, p.typ, p.op, g.stream)
		case allGather:
			return n.AllGather(dst, src, count, p.typ, g.stream)
		}
		return n.AllToAll(dst, src, count, p.typ, g.stream)
	}}
}

// spread is a maker that uses all processors: what a GPU holds is much for one.
type spread struct {
	maker
	elem int
}

func (s spread) fill(dst []byte, rank int, at int64) {
	inParts(dst, s.elem, func(part []byte, from int64) int64 {
		s.maker.fill(part, rank, at+from)
		return 0
	})
}

func (s spread) wrong(got []byte, rank int, at int64) int64 {
	return inParts(got, s.elem, func(part []byte, from int64) int64 { return s.maker.wrong(part, rank, at+from) })
}

func (s spread) wrongReduced(got []byte, ranks int, at int64) int64 {
	return inParts(got, s.elem, func(part []byte, from int64) int64 { return s.maker.wrongReduced(part, ranks, at+from) })
}

// newMaker is the maker for a type, spread over the processors if the data are on GPUs.
func (s *job) newMaker(t kernels.Type, reduces bool, op kernels.Op) maker {
	mk := newMaker(t, reduces, op, s.ranks)
	if s.gpu != nil {
		return spread{mk, t.Size()}
	}
	return mk
}
