package collectives

import (
	"context"
	"fmt"
	"slices"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
)

// Calls of a group that are made together are packed: the elements of all, one
// call's after the other's, become one call of granules, which a schedule moves as it
// moves any elements. Only where it combines granules are they looked into: each
// call's part is reduced with its own type and operator.
//
// A granule holds whole elements only, and is as large as messages are aligned.
// Each call begins with a new one; what is left of its last is nobody's. Where there
// are blocks, each block has all calls.

// granule is the size of what a schedule takes for an element, in bytes.
const granule = 16

// granules is how many a number of bytes takes.
func granules(bytes int) int { return (bytes + granule - 1) / granule }

// Which calls are packed.
const (
	// largePart is the size of a block from which on copying it costs more than a
	// message of its own.
	largePart = 64 << 10
	// maxPackBytes bounds a pack, of all blocks: a larger one would not be faster.
	maxPackBytes = 1 << 20
)

// A pack is calls of a group that are made together, or one call.
type pack struct {
	kind  plan.Collective // 0: one call that can't be packed
	count int             // granules of a block
	call  comm.Call       // as what it is done
	batch int             // the packs of one batch may be made in any order
	parts []part
}

// A part is a call of a pack.
type part struct {
	o     *operation
	index int // in the group
	at    int // its first granule in a block
	bytes int // of it in a block
}

// isTogether says whether there is something to pack.
func (p *pack) isTogether() bool { return len(p.parts) > 1 }

// calls says whether a call of the pack has a function of the program.
func (p *pack) calls() bool {
	return slices.ContainsFunc(p.parts, func(q part) bool { return q.o.f != nil })
}

// packedCall is a call of granules: of elements for a function if there is
// something to reduce, so that it is done in rank order, else of numbers of that size.
func packedCall(of comm.Call) comm.Call {
	if of.Reduces() {
		return comm.Call{Collective: of.Collective, Root: of.Root, ElemBytes: granule, Func: true}
	}
	return comm.Call{Collective: of.Collective, Root: of.Root, Type: kernels.TypeComplex128}
}

// packing is what calls of one pack have in common.
type packing struct {
	kind plan.Collective
	root int
}

// layout divides the calls of a group among packs. It leaves out those in done and
// those that do nothing. Calls on both sides of a cut, or of a barrier, are not made
// together. All ranks get the same.
func (r *runner) layout(ops []operation, cuts, done bitmap) []pack {
	packs, where := []pack{}, make([]int, len(ops))
	open := map[packing]int{} // packs that take more calls
	parts, batch := 0, 0
	next := func() {
		clear(open)
		batch++
	}
	for i := range ops {
		o := &ops[i]
		where[i] = -1
		if cuts.has(i) {
			next()
		}
		barrier := o.kind == plan.Barrier
		if done.has(i) || o.kind != 0 && o.count == 0 && !barrier {
			continue
		}
		if barrier {
			next()
		}
		parts++
		what, size := packing{o.kind, o.call.Root}, granules(blockBytes(o))
		packable := r.packable(o)
		k, ok := open[what]
		if !packable || !ok || (packs[k].count+size)*granule*r.blocksOf(o.kind) > maxPackBytes {
			k = len(packs)
			packs = append(packs, pack{batch: batch})
			if packable {
				open[what] = k
				packs[k].kind, packs[k].call = o.kind, packedCall(o.call)
			}
		}
		packs[k].count += size
		where[i] = k
		if barrier {
			next()
		}
	}
	sizes := make([]int, len(packs))
	for _, k := range where {
		if k >= 0 {
			sizes[k]++
		}
	}
	all := make([]part, parts)
	for k := range packs {
		packs[k].parts, all = all[:0:sizes[k]], all[sizes[k]:]
	}
	for i, k := range where {
		if k < 0 {
			continue
		}
		p, at := &packs[k], 0
		if n := len(p.parts); n > 0 {
			at = p.parts[n-1].at + granules(p.parts[n-1].bytes)
		}
		p.parts = append(p.parts, part{o: &ops[i], index: i, at: at, bytes: blockBytes(&ops[i])})
	}
	return packs
}

// packable says whether a call may be packed. All ranks find the same.
func (r *runner) packable(o *operation) bool {
	bytes := blockBytes(o)
	switch {
	case o.kind == 0 || o.kind == plan.Barrier || bytes >= largePart || bytes*r.blocksOf(o.kind) > maxPackBytes:
		return false
	case !o.call.Reduces():
		return true
	}
	return granule%unitBytes(o.call) == 0 && r.chooser.keepsOrder(shapeOf(r.e, o.kind, o.call, o.count), o.call)
}

// blockBytes is the size of a call's block.
func blockBytes(o *operation) int { return o.count * unitBytes(o.call) }

// blocksOf is the number of blocks of the larger of dst and src.
func (r *runner) blocksOf(k plan.Collective) int {
	switch k {
	case plan.AllGather, plan.AllToAll, plan.Gather, plan.Scatter, plan.ReduceScatter:
		return r.ranks
	}
	return 1
}

// blocks is the number of blocks that this rank gives and gets.
func (r *runner) blocks(p *pack) (give, get int) {
	me := r.e.Rank()
	root := me == p.call.Root
	switch p.kind {
	case plan.AllGather:
		return 1, r.ranks
	case plan.AllToAll:
		return r.ranks, r.ranks
	case plan.ReduceScatter:
		return r.ranks, 1
	case plan.Gather:
		if root {
			return 1, r.ranks
		}
		return 1, 0
	case plan.Scatter:
		if root {
			return r.ranks, 1
		}
		return 0, 1
	case plan.Broadcast:
		if root {
			return 1, 0
		}
		return 0, 1
	case plan.Reduce:
		if !root {
			return 1, 0
		}
	case plan.Exscan:
		if me == 0 {
			return 1, 0
		}
	}
	return 1, 1
}

// side is where the blocks are that a rank gives, or gets, of those that are
// packed: all, or its own. Both are in one place, as for a call in place.
func (r *runner) side(p *pack, blocks, all int) []byte {
	size, from := p.count*granule, 0
	if 0 < blocks && blocks < all {
		from = r.e.Rank() * size
	}
	return r.packed[from:][:blocks*size]
}

// exchangePack packs what this rank gives and makes the call.
func (r *runner) exchangePack(ctx context.Context, p *pack) error {
	give, get := r.blocks(p)
	all := max(give, get)
	grown(&r.packed, all*p.count*granule)
	send, recv := r.side(p, give, all), r.side(p, get, all)
	for i := range p.parts {
		q := &p.parts[i]
		src := q.o.src
		if p.kind == plan.Broadcast {
			src = q.o.dst
		}
		for b := range give {
			copy(send[(b*p.count+q.at)*granule:], src[b*q.bytes:][:q.bytes])
		}
	}
	if p.kind == plan.Broadcast {
		send, recv = nil, r.side(p, 1, 1)
	}
	x := &r.x
	x.size, x.window, x.packed = granule, window{}, p.parts
	x.bufs[plan.Send], x.bufs[plan.Recv] = send, recv
	o := operation{kind: p.kind, count: p.count, call: p.call}
	err := r.planned(ctx, &o)
	x.bufs, x.packed, x.f = [len(x.bufs)][]byte{}, nil, nil
	return err
}

// unpack copies what this rank gets to where a call wants it.
func (r *runner) unpack(p *pack, q *part) error {
	give, get := r.blocks(p)
	recv, o := r.side(p, get, max(give, get)), q.o
	for b := range get {
		copy(o.dst[b*q.bytes:][:q.bytes], recv[(b*p.count+q.at)*granule:])
	}
	if !ofOne(o, r.e.Rank(), r.ranks) {
		return nil
	}
	x := &r.x
	x.t, x.op = o.call.Type, o.call.Op
	return x.reduce(o.dst, append(x.srcs[:0], o.dst), false, 1)
}

// combinePacked does a Combine of granules. Algorithms in rank order combine all
// that there is of an element at once, to its place in dst.
func (x *execution) combinePacked(st *plan.Step, srcs [][]byte, ranks int) error {
	if st.Dst.Buf != plan.Recv {
		return fmt.Errorf("combine granules elsewhere than in dst: %w", transport.ErrUnsupported)
	}
	dst, from := x.bytes(st.Dst, granule), x.place(st.Dst.From)
	to := from + st.Dst.Len()
	// The first that has a granule behind from.
	i, _ := slices.BinarySearchFunc(x.packed, from, func(q part, from int) int { return q.at + granules(q.bytes) - from - 1 })
	for ; i < len(x.packed) && x.packed[i].at < to; i++ {
		q := &x.packed[i]
		lo := (max(q.at, from) - from) * granule
		hi := min(q.at*granule+q.bytes, to*granule) - from*granule
		pieces := x.pieces[:0]
		for _, src := range srcs {
			pieces = append(pieces, src[lo:hi:hi])
		}
		x.pieces = pieces
		x.t, x.op, x.f = q.o.call.Type, q.o.call.Op, q.o.f
		if err := x.reduce(dst[lo:hi:hi], pieces, st.Complete, ranks); err != nil {
			return err
		}
	}
	return nil
}
