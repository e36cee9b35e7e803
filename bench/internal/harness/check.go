package harness

import (
	"context"
	"fmt"
)

// A tamperer spoils results before they are checked; tests have one.
type tamperer func(rank int, dst []byte)

// prepare writes a rank's input into the slot of a call, and rubbish into its
// destination.
func (p *pass) prepare(call int64) {
	if p.coll.kind == barrier {
		return
	}
	src, dst := p.slot(call)
	for i := range dst {
		dst[i] = 0xa5
	}
	p.make.fill(src, p.rank, p.at(call))
}

// at is the place, for a [maker], of the source's first element.
func (p *pass) at(call int64) int64 { return call % p.slots * p.srcStride }

// verify counts the wrong elements in the result of a call on this rank.
func (p *pass) verify(call int64, tamper tamperer) int64 {
	_, dst := p.slot(call)
	if tamper != nil {
		tamper(p.rank, dst)
	}
	at, block := p.at(call), p.count*int64(p.typ.Size())
	var wrong int64
	switch p.coll.kind {
	case allReduce:
		return p.make.wrongReduced(dst, p.ranks, at)
	case reduce:
		if p.rank == p.rootOf(call) {
			return p.make.wrongReduced(dst, p.ranks, at)
		}
	case broadcast:
		return p.make.wrong(dst, p.rootOf(call), at)
	case allGather:
		for r := range p.ranks {
			wrong += p.make.wrong(dst[int64(r)*block:][:block], r, at)
		}
	case reduceScatter:
		return p.make.wrongReduced(dst, p.ranks, at+int64(p.rank)*p.count)
	case gather:
		if p.rank != p.rootOf(call) {
			return 0
		}
		for r := range p.ranks {
			wrong += p.make.wrong(dst[int64(r)*block:][:block], r, at)
		}
	case scatter:
		return p.make.wrong(dst, p.rootOf(call), at+int64(p.rank)*p.count)
	case scan:
		return p.make.wrongReduced(dst, p.rank+1, at)
	case allToAll:
		for r := range p.ranks {
			wrong += p.make.wrong(dst[int64(r)*block:][:block], r, at+int64(p.rank)*p.count)
		}
	}
	return wrong
}

// check makes calls one by one and counts the wrong elements on this rank; if
// the root rotates, every rank is it as often.
func (l *lane) check(ctx context.Context, m *meter, calls int) error {
	if l.pass.coll.rooted && l.pass.root < 0 {
		calls *= l.pass.ranks
	}
	// What makes several calls at once is checked as it is timed, one of the calls, unless
	// that one would find the results of another in place.
	unit := l.unit()
	if l.pass.inPlace && l.pass.slots < int64(unit) {
		unit = 1
	}
	for i := range calls {
		first := m.take(unit, unit)
		call := first + int64(unit-1-i%min(unit, int(l.pass.slots)))
		l.pass.prepare(call)
		if err := l.pass.push(call); err != nil {
			return err
		}
		if err := m.barrier(ctx); err != nil {
			return err
		}
		if _, err := l.contender.run(ctx, first, unit); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		if err := l.pass.pull(call); err != nil {
			return err
		}
		l.wrong += l.pass.verify(call, l.tamper)
	}
	return nil
}
