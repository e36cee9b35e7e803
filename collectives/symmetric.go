package collectives

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/cache"
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
	symmetricLine  = 64      // parts of a slice begin at multiples
	symmetricPiece = 2 << 10 // what is written at a time around the cache: the least that takes no longer
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
	streams := r.streams(dst, r.limits.direct)
	switch o.kind {
	case plan.AllReduce, plan.ReduceScatter:
		from, to, base := 0, n, me*n // of the block that this rank reduces; where it is in src
		if o.kind == plan.AllReduce {
			from, to = symmetricShare(n, x.size, r.ranks, me)
			base = 0
		}
		srcs, dsts := r.views[:0:r.ranks], r.views[r.ranks:r.ranks]
		defer clear(r.views)
		for p := range r.ranks {
			b, err := at(p, false, base+from, to-from)
			if err != nil {
				return err
			}
			srcs = append(srcs, b)
			if p == me {
				b = dst[from:to]
			} else if o.kind == plan.ReduceScatter {
				continue
			} else if b, err = at(p, true, from, to-from); err != nil {
				return err
			}
			dsts = append(dsts, b)
		}
		if streams && streamUnit(x.size) <= symmetricChunk && aroundCache(dsts, srcs) {
			return r.symmetricStream(dsts, srcs)
		}
		own := dst[from:to]
		pieces := x.srcs[:0]
		for range srcs {
			pieces = append(pieces, nil)
		}
		x.srcs = pieces
		chunk := max(symmetricChunk/x.size, 1) * x.size
		for i := 0; i < to-from; i += chunk {
			end := min(i+chunk, to-from)
			for p, b := range srcs {
				pieces[p] = b[i:end]
			}
			if err := x.reduce(own[i:end], pieces, true, r.ranks); err != nil {
				return err
			}
			for _, b := range dsts {
				copy(b[i:end], own[i:end])
			}
		}
		clear(pieces)
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
			copyChunks(b, src, streams)
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
			copyChunks(b, src, streams)
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

// aroundCache says whether results had better go around the cache. What is in place was read
// just now, and need not be fetched to be written.
func aroundCache(dsts, srcs [][]byte) bool {
	for _, b := range dsts {
		if !cache.IsLine(b) || slices.ContainsFunc(srcs, func(src []byte) bool { return same(b, src) }) {
			return false
		}
	}
	return true
}

// streamUnit is a number of bytes that are whole elements and whole lines.
func streamUnit(size int) int {
	if cache.LineBytes%size == 0 {
		return cache.LineBytes
	}
	return cache.LineBytes * size
}

// symmetricStream reduces srcs to dsts around the cache: pieces that stay in the nearest one,
// and while one is written the next are on their way.
func (r *runner) symmetricStream(dsts, srcs [][]byte) error {
	x := &r.x
	pieces := x.srcs[:0]
	for range srcs {
		pieces = append(pieces, nil)
	}
	x.srcs = pieces
	n, unit := len(dsts[0]), streamUnit(x.size)
	chunk := max(symmetricPiece/unit, 1) * unit
	bounce := grown(&r.bounce, chunk)
	for i := 0; i < n; i += chunk {
		end := min(i+chunk, n)
		for p, b := range srcs {
			pieces[p] = b[i:end]
		}
		if err := x.reduce(bounce[:end-i], pieces, true, r.ranks); err != nil {
			return err
		}
		whole := (end - i) / cache.LineBytes * cache.LineBytes
		if whole > 0 {
			cache.Spread(dsts, i, bounce[:whole], srcs, end)
		}
		for _, b := range dsts {
			copy(b[i+whole:end], bounce[whole:])
		}
	}
	cache.Fence()
	clear(pieces)
	return nil
}

// copyChunks copies in pieces that stay in the cache: large ones go around it,
// and a peer reads them next. Or it copies around the cache, in pieces between which the
// collector may stop this.
func copyChunks(dst, src []byte, streams bool) {
	if same(dst, src) {
		return
	}
	for len(src) > 0 {
		n := min(len(src), copyChunk)
		if streams {
			cache.Stream(dst[:n], src[:n])
		} else {
			copy(dst, src[:n])
		}
		dst, src = dst[n:], src[n:]
	}
}

const copyChunk = 256 << 10
