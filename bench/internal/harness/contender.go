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
	wrap        int64 // calls after which graphs come again, and their roots with them; 0: never
}

// rootOf is the root of a call.
func (p *pass) rootOf(call int64) int {
	if p.root >= 0 {
		return p.root
	}
	if p.wrap > 0 {
		call %= p.wrap
	}
	return int(call % int64(p.ranks))
}

// in returns the pass out of place or in place.
func (p pass) in(inPlace bool) *pass {
	p.inPlace = inPlace
	if inPlace {
		p.layout = p.layout.inPlace(p.rank)
	}
	return &p
}

// sources is the memory that sources are in.
func (p *pass) sources() []byte {
	if p.inPlace {
		return p.pool.dst
	}
	return p.pool.src
}

// slot returns the source and the destination of a call.
func (p *pass) slot(call int64) (src, dst []byte) {
	srcAt, dstAt := p.offsets(call)
	elem := int64(p.typ.Size())
	return p.sources()[srcAt:][:p.src*elem], p.pool.dst[dstAt:][:p.dst*elem]
}

// offsets are where they begin in the memory that they are in, in bytes.
func (p *pass) offsets(call int64) (src, dst int64) {
	k, elem := call%p.slots, int64(p.typ.Size())
	return (k*p.srcStride + p.srcAt) * elem, (k*p.dstStride + p.dstAt) * elem
}

// A contender is a library that is timed.
type contender interface {
	// run makes calls first, first+1, … and returns how long they took on
	// this rank.
	run(ctx context.Context, first int64, calls int) (time.Duration, error)
}

// A batcher is a contender that makes several calls at once, and has something to give up.
type batcher interface {
	// unit is the number of calls; run takes multiples, or single calls.
	unit() int
	close() error
}

// newWeft returns the contender that is this library.
func newWeft(c *comm.Communicator, p *pass, f form) (contender, error) {
	switch p.typ {
	case kernels.TypeInt8:
		return newTyped[int8](c, p, f)
	case kernels.TypeInt16:
		return newTyped[int16](c, p, f)
	case kernels.TypeInt32:
		return newTyped[int32](c, p, f)
	case kernels.TypeInt64:
		return newTyped[int64](c, p, f)
	case kernels.TypeUint8:
		return newTyped[uint8](c, p, f)
	case kernels.TypeUint16:
		return newTyped[uint16](c, p, f)
	case kernels.TypeUint32:
		return newTyped[uint32](c, p, f)
	case kernels.TypeUint64:
		return newTyped[uint64](c, p, f)
	case kernels.TypeFloat16:
		return newTyped[kernels.Float16](c, p, f)
	case kernels.TypeBFloat16:
		return newTyped[kernels.BFloat16](c, p, f)
	case kernels.TypeFloat64:
		return newTyped[float64](c, p, f)
	case kernels.TypeFloat8E4M3:
		return newTyped[kernels.Float8E4M3](c, p, f)
	case kernels.TypeFloat8E5M2:
		return newTyped[kernels.Float8E5M2](c, p, f)
	}
	return newTyped[float32](c, p, f)
}

// weft calls the library as programs do, with slices of a type.
type weft[T kernels.Number] struct {
	c        *comm.Communicator
	p        *pass
	form     form
	src, dst []T // from the first slot's source and destination on
	// In the persistent form the calls of one period, after which slot and root
	// come again.
	set []*collectives.Persistent
}

func newTyped[T kernels.Number](c *comm.Communicator, p *pass, f form) (contender, error) {
	w := &weft[T]{c: c, p: p, form: f, src: kernels.Slice[T](p.sources())[p.srcAt:], dst: kernels.Slice[T](p.pool.dst)[p.dstAt:]}
	if f != persistent {
		return w, nil
	}
	w.set = make([]*collectives.Persistent, p.period())
	for i := range w.set {
		var err error
		dst, src := w.slices(int64(i) % p.slots)
		if w.set[i], err = w.setUp(dst, src, p.rootOf(int64(i))); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// slices are the destination and the source of a slot.
func (w *weft[T]) slices(slot int64) (dst, src []T) {
	return w.dst[slot*w.p.dstStride:][:w.p.dst], w.src[slot*w.p.srcStride:][:w.p.src]
}

func (w *weft[T]) run(ctx context.Context, first int64, calls int) (time.Duration, error) {
	p := w.p
	slot, root := first%p.slots, p.rootOf(first)
	at, period := int(first%p.period()), len(w.set)
	var err error
	begin := time.Now()
	for i := 0; i < calls && err == nil; i++ {
		switch w.form {
		case persistent:
			err = w.set[at].Run(ctx)
			if at++; at == period {
				at = 0
			}
		case started:
			dst, src := w.slices(slot)
			err = w.start(ctx, dst, src, root).Wait(ctx)
		default:
			dst, src := w.slices(slot)
			err = w.call(ctx, dst, src, root)
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
