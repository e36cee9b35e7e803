package collectives

import (
	"encoding/binary"
	"fmt"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
)

// Calls on symmetric memory go without messages: each rank reads and writes the
// memory of all of them. First all tell each other where their slices lie, and so
// that these may be touched, by a short; then each does its share of the work; then
// all tell each other that they are done.
//
// S bytes per rank, n ranks; what one rank reads and writes:
//
//	AllReduce      n·S/n and n·S/n: it reduces its part of all, and puts it to all
//	ReduceScatter  n·S and S, S being the size of a block
//	AllGather      S and n·S
//	AllToAll       S and S
//	Broadcast      S/n and n·S/n: each rank moves a part for all
//
// AllReduce: as "flat" single-copy reductions in Open MPI's coll/acoll.

const (
	// symmetricLeast is the bytes from which that pays, symmetricChunk what stays in
	// the cache while it is reduced and moved to all.
	symmetricLeast = 1 << 10
	symmetricChunk = 32 << 10
	symmetricLine  = 64 // parts of a slice begin at multiples
)

// slices of a call are at places of symmetric memory.
type symmetricPlaces struct {
	dst, src comm.Place
	inPlace  bool
}

const symmetricWords = 32

var symmetricKinds = [plan.Barrier + 1]bool{
	plan.AllReduce: true, plan.ReduceScatter: true, plan.AllGather: true, plan.AllToAll: true, plan.Broadcast: true,
}

func (s symmetricPlaces) append(b []byte) []byte {
	flags := uint64(0)
	if s.inPlace {
		flags = 1
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(s.dst.Buffer)|flags<<32)
	b = binary.LittleEndian.AppendUint64(b, s.dst.Offset)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.src.Buffer))
	return binary.LittleEndian.AppendUint64(b, s.src.Offset)
}

func parseSymmetric(b []byte) symmetricPlaces {
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	return symmetricPlaces{
		dst: comm.Place{Buffer: uint32(word(0)), Offset: word(1)}, src: comm.Place{Buffer: uint32(word(2)), Offset: word(3)},
		inPlace: word(0)>>32 != 0,
	}
}

// symmetric does a call on symmetric memory if it is that on all ranks, and says
// whether it did. All ranks come to the same answer.
func (r *runner) symmetric(o *operation, dst []byte) (done bool, err error) {
	c, me := o.c, r.e.Rank()
	if !c.HasPlaces() || o.count*r.x.size < symmetricLeast || !symmetricKinds[o.kind] || r.chooser.spec.Restricts(o.kind) {
		return false, nil
	}
	own := symmetricPlaces{dst: c.PlaceOf(dst), src: c.PlaceOf(o.src), inPlace: same(dst, o.src)}
	r.tell(own.append(r.told[:0]))
	dstSame, srcSame, inPlace := own.dst.Buffer != 0, own.src.Buffer != 0, own.inPlace
	for p := range r.ranks {
		if p == me {
			r.places[p] = own
			continue
		}
		b, err := r.x.lanes.TakeShort(p, symmetricWords)
		if err != nil {
			return true, err
		}
		r.places[p] = parseSymmetric(b)
		dstSame = dstSame && r.places[p].dst.Buffer == own.dst.Buffer
		srcSame = srcSame && r.places[p].src.Buffer == own.src.Buffer
		inPlace = inPlace || r.places[p].inPlace
	}
	if err := r.x.lanes.EndShort(); err != nil {
		return true, err
	}
	switch o.kind {
	case plan.AllReduce:
		done = dstSame && srcSame
	case plan.ReduceScatter:
		done = srcSame
	case plan.AllToAll:
		done = dstSame && !inPlace // what is overwritten is still to be sent
	default:
		done = dstSame
	}
	if !done {
		return false, nil
	}
	if err := r.symmetricWork(o, dst); err != nil {
		return true, err
	}
	r.tell(nil)
	for p := range r.ranks {
		if p != me {
			if _, err := r.x.lanes.TakeShort(p, 0); err != nil {
				return true, err
			}
		}
	}
	return true, r.x.lanes.EndShort()
}

// tell gives the same short to all.
func (r *runner) tell(data []byte) {
	r.x.lanes.BeginShort()
	for p := range r.ranks {
		if p != r.e.Rank() {
			r.x.lanes.GiveShort(p, data)
		}
	}
}

// symmetricWork is this rank's share.
func (r *runner) symmetricWork(o *operation, dst []byte) error {
	x, c, me := &r.x, o.c, r.e.Rank()
	n := o.count * x.size // bytes of a block
	at := func(p int, dst bool, from, n int) ([]byte, error) {
		place := r.places[p].src
		if dst {
			place = r.places[p].dst
		}
		place.Offset += uint64(from)
		b := c.At(p, place, n)
		if b == nil {
			return nil, fmt.Errorf("%w: rank %d has %d bytes at %d of buffer %d", comm.ErrArgument, p, n, place.Offset, place.Buffer)
		}
		return b, nil
	}
	switch o.kind {
	case plan.AllReduce, plan.ReduceScatter:
		from, to, base := 0, n, me*n // of the block that this rank reduces; where it is in src
		if o.kind == plan.AllReduce {
			from, to = symmetricShare(n, x.size, r.ranks, me)
			base = 0
		}
		srcs := x.srcs[:0]
		chunk := max(symmetricChunk/x.size, 1) * x.size
		for i := from; i < to; i += chunk {
			m := min(chunk, to-i)
			srcs = srcs[:0]
			for p := range r.ranks {
				b, err := at(p, false, base+i, m)
				if err != nil {
					return err
				}
				srcs = append(srcs, b)
			}
			out := dst[i : i+m]
			if err := x.reduce(out, srcs, true, r.ranks); err != nil {
				return err
			}
			for p := range r.ranks {
				if p == me || o.kind != plan.AllReduce {
					continue
				}
				b, err := at(p, true, i, m)
				if err != nil {
					return err
				}
				copy(b, out)
			}
		}
		clear(srcs)
		x.srcs = srcs[:0]
	case plan.AllGather, plan.AllToAll:
		for k := range r.ranks {
			p := (me + k) % r.ranks // not all to one at a time
			src := o.src
			if o.kind == plan.AllToAll {
				src = o.src[p*n : (p+1)*n]
			}
			b := dst[me*n : (me+1)*n]
			if p != me {
				var err error
				if b, err = at(p, true, me*n, n); err != nil {
					return err
				}
			}
			copyChunks(b, src)
		}
	case plan.Broadcast:
		from, to := symmetricShare(n, x.size, r.ranks, me)
		src, err := at(o.call.Root, true, from, to-from)
		if err != nil {
			return err
		}
		for k := range r.ranks {
			p := (me + k) % r.ranks
			if p == o.call.Root {
				continue
			}
			b, err := at(p, true, from, to-from)
			if err != nil {
				return err
			}
			copyChunks(b, src)
		}
	}
	return nil
}

// symmetricShare is a rank's part of n bytes of elements: whole lines, and whole
// elements.
func symmetricShare(n, size, ranks, rank int) (from, to int) {
	unit := symmetricLine
	for unit%size != 0 {
		unit += symmetricLine
		if unit > 64*symmetricLine {
			unit = size
		}
	}
	units := (n + unit - 1) / unit
	return min(units*rank/ranks*unit, n), min(units*(rank+1)/ranks*unit, n)
}

// copyChunks copies in pieces that stay in the cache: large ones go around it,
// and a peer reads them next.
func copyChunks(dst, src []byte) {
	for len(src) > 0 {
		n := copy(dst, src[:min(len(src), copyChunk)])
		dst, src = dst[n:], src[n:]
	}
}

const copyChunk = 256 << 10
