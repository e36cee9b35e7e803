package harness

import (
	"context"
	"time"

	"github.com/weft-go/weft/collectives"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// A pass is one collective at one size, out of place or in place, by one library.
type pass struct {
	coll    *collective
	typ     kernels.Type
	op      kernels.Op
	root    int // -1: rotates
	inPlace bool
	count   int64 // elements per rank
	layout
	rank, ranks int
	pool        pool
	make        maker
}

// rootOf is the root of a call.
func (p *pass) rootOf(call int64) int {
	if p.root >= 0 {
		return p.root
	}
	return int(call % int64(p.ranks))
}

// slot returns the source and the destination of a call; in place the source
// is the destination, or the rank's block of it.
func (p *pass) slot(call int64) (src, dst []byte) {
	k, elem := call%p.slots, int64(p.typ.Size())
	dst = p.pool.dst[k*p.dstStride*elem:][:p.dst*elem]
	if !p.inPlace {
		return p.pool.src[k*p.srcStride*elem:][:p.src*elem], dst
	}
	if p.coll.kind == allGather {
		return dst[int64(p.rank)*p.src*elem:][:p.src*elem], dst
	}
	return dst, dst
}

// A contender is a library that is timed.
type contender interface {
	// run makes calls first, first+1, … and returns how long they took on
	// this rank.
	run(ctx context.Context, first int64, calls int) (time.Duration, error)
}

// newWeft returns the contender that is this library.
func newWeft(c *comm.Communicator, p *pass) contender {
	switch p.typ {
	case kernels.TypeInt8:
		return newTyped[int8](c, p)
	case kernels.TypeInt16:
		return newTyped[int16](c, p)
	case kernels.TypeInt32:
		return newTyped[int32](c, p)
	case kernels.TypeInt64:
		return newTyped[int64](c, p)
	case kernels.TypeUint8:
		return newTyped[uint8](c, p)
	case kernels.TypeUint16:
		return newTyped[uint16](c, p)
	case kernels.TypeUint32:
		return newTyped[uint32](c, p)
	case kernels.TypeUint64:
		return newTyped[uint64](c, p)
	case kernels.TypeFloat16:
		return newTyped[kernels.Float16](c, p)
	case kernels.TypeBFloat16:
		return newTyped[kernels.BFloat16](c, p)
	case kernels.TypeFloat64:
		return newTyped[float64](c, p)
	}
	return newTyped[float32](c, p)
}

// weft calls the library as programs do, with slices of a type.
type weft[T kernels.Number] struct {
	c        *comm.Communicator
	p        *pass
	src, dst []T
}

func newTyped[T kernels.Number](c *comm.Communicator, p *pass) contender {
	return &weft[T]{c, p, kernels.Slice[T](p.pool.src), kernels.Slice[T](p.pool.dst)}
}

func (w *weft[T]) run(ctx context.Context, first int64, calls int) (time.Duration, error) {
	p := w.p
	slot, root := first%p.slots, p.rootOf(first)
	var err error
	begin := time.Now()
	for i := 0; i < calls && err == nil; i++ {
		dst := w.dst[slot*p.dstStride:][:p.dst]
		src := dst
		if !p.inPlace {
			src = w.src[slot*p.srcStride:][:p.src]
		}
		switch p.coll.kind {
		case allReduce:
			err = collectives.AllReduce(ctx, w.c, dst, src, p.op)
		case reduce:
			err = collectives.Reduce(ctx, w.c, dst, src, p.op, root)
		case broadcast:
			err = collectives.Broadcast(ctx, w.c, dst, root)
		case allGather:
			if p.inPlace {
				src = dst[int64(p.rank)*p.src:][:p.src]
			}
			err = collectives.AllGather(ctx, w.c, dst, src)
		case allToAll:
			err = collectives.AllToAll(ctx, w.c, dst, src)
		case barrier:
			err = collectives.Barrier(ctx, w.c)
		}
		if slot++; slot == p.slots {
			slot = 0
		}
		if root++; p.root >= 0 {
			root = p.root
		} else if root == p.ranks {
			root = 0
		}
	}
	return time.Since(begin), err
}
