package fabric

import (
	"github.com/weft-go/weft/internal/cache"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/elementwise"
	"github.com/weft-go/weft/transport/internal/mapped"
)

// perform executes one unit. It returns false if what the operation names is not
// there any more; some bytes may have been moved then.
func (o *op) perform(unit int) bool {
	piece, n := unit%o.pieces, o.pieceBytes
	from := piece * o.pieceBytes
	if o.kind != transport.OpAtom {
		n = min(n, o.n-from)
	}
	switch {
	case o.kind == transport.OpPullRed:
		return o.pull(from, n)
	case o.kind == transport.OpGet:
		p := o.parts[0]
		v := p.enter()
		ok := v != nil && o.get(v, from, n)
		p.leave()
		return ok
	}
	p := o.parts[unit/o.pieces]
	v := p.enter()
	ok := v != nil && o.write(v, o.offset+uint64(from), o.local[from:from+n]) && o.count(v, n)
	p.leave()
	return ok
}

// performWhole executes all of an operation, as perform does a unit.
func (o *op) performWhole() bool {
	if o.fetches() {
		o.cut(1)
		return o.perform(0)
	}
	for _, p := range o.parts {
		v := p.enter()
		if o.counts && o.n >= early && v != nil {
			o.ownCounter(v)
		}
		ok := v != nil && o.write(v, o.offset, o.local)
		for _, p := range o.rest {
			ok = ok && o.write(v, o.offset+p.Offset, p.Src)
		}
		ok = ok && o.count(v, o.n)
		p.leave()
		if !ok {
			return false
		}
	}
	return true
}

// ownCounter asks for the line of the counter at one part, which its owner has looked at:
// it is there when the bytes are.
func (o *op) ownCounter(v *view) {
	if s := v.find(o.counter); s != nil {
		cache.Own(s.data[o.counter-s.at:][:8])
	}
}

// write does the operation's bytes of a source, at one part.
func (o *op) write(v *view, at uint64, src []byte) bool {
	t := o.e.t
	for len(src) > 0 {
		s := v.find(at)
		if s == nil {
			return false
		}
		k := int(min(uint64(len(src)), s.end-at))
		b := s.data[at-s.at:][:k]
		if s.region.shadow.on() {
			if o.kind != transport.OpPut && o.kind != transport.OpPutCounted && o.kind != transport.OpPutMultimem && o.kind != transport.OpPutCountedMultimem {
				o.checkReleased(s, at, k)
			}
			// Before the bytes are there: an owner that sees them may fence at once.
			if o.kind != transport.OpPutMasked || o.mask != 0 {
				s.region.shadow.wroteByFabric(t.cfg.rank, s.base+at-s.at, uint64(k))
			}
		}
		switch o.kind {
		case transport.OpRed, transport.OpRedCounted, transport.OpRedMultimem:
			elementwise.Red(b, src[:k], o.redOp, o.typ)
		case transport.OpPutMasked:
			moveMasked(b, src[:k], o.mask, t.unseen())
		case transport.OpAtom:
			elementwise.Atom(s.data, at-s.at, o.local, o.operand, o.redOp, o.typ)
		default:
			if k >= around && t.streams.Load() && !t.unseen() {
				cache.Stream(b, src[:k])
			} else {
				move(b, src[:k], t.unseen())
			}
		}
		s.region.bell.RingIfArmed()
		at, src = at+uint64(k), src[k:]
	}
	return true
}

// count adds a piece's bytes to the counter at one part, after they are there.
func (o *op) count(v *view, n int) bool {
	if !o.counts {
		return true
	}
	s := v.find(o.counter)
	if s == nil {
		return false
	}
	if s.region.shadow.on() {
		o.checkReleased(s, o.counter, 8) // the owner may have reset it by pointer
	}
	mapped.Word(s.data, o.counter-s.at).Add(uint64(n))
	s.region.bell.RingIfArmed()
	return true
}

func (o *op) get(v *view, from, n int) bool {
	for at := o.offset + uint64(from); n > 0; {
		s := v.find(at)
		if s == nil {
			return false
		}
		k := int(min(uint64(n), s.end-at))
		if s.region.shadow.on() {
			o.checkReleased(s, at, k)
		}
		move(o.local[from:from+k], s.data[at-s.at:][:k], o.e.t.unseen())
		at, from, n = at+uint64(k), from+k, n-k
	}
	return true
}

// pull reduces n bytes from from on over all parts.
func (o *op) pull(from, n int) bool {
	unseen := o.e.t.unseen()
	var fewViews [16]*view
	var few [16][]byte
	views := fewViews[:0]
	ok := true
	for _, p := range o.parts {
		v := p.enter()
		ok = ok && v != nil
		views = append(views, v)
	}
	for at := o.offset + uint64(from); ok && n > 0; {
		k := uint64(n)
		for _, v := range views {
			s := v.find(at)
			if s == nil {
				ok = false
				break
			}
			k = min(k, s.end-at)
		}
		if !ok {
			break
		}
		srcs := few[:0]
		for _, v := range views {
			s := v.find(at)
			if s.region.shadow.on() {
				o.checkReleased(s, at, int(k))
			}
			src := s.data[at-s.at:][:k]
			if unseen {
				seen := make([]byte, k)
				move(seen, src, true)
				src = seen
			}
			srcs = append(srcs, src)
		}
		ok = elementwise.PullRed(o.local[from:from+int(k)], srcs, o.redOp, o.typ) == nil
		at, from, n = at+k, from+int(k), n-int(k)
	}
	for _, p := range o.parts {
		p.leave()
	}
	return ok
}

// checkReleased wants what the fabric reads of a segment to have been released if
// it was written through a pointer.
func (o *op) checkReleased(s *segment, at uint64, n int) {
	sh := &s.region.shadow
	if o.unreleased {
		return // told once
	}
	if bad, found := sh.later(shadowPointer, sh.writes(shadowReleased), s.base+at-s.at, uint64(n)); found {
		e := o.e.t.broken(RuleMissingRelease, o.kind.String(), ErrUndefined).at(o.e, s.at+bad-s.base, shadowUnit)
		e.Rank, e.Peer = o.peer(), o.e.t.cfg.rank
		o.unreleased = true
		o.e.t.diag.add(e)
	}
}
