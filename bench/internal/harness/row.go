package harness

import (
	"context"
	"slices"

	"github.com/weft-go/weft/bench/internal/record"
	"github.com/weft-go/weft/collectives"
	"github.com/weft-go/weft/kernels"
)

// result is a row: up to two lines.
type result struct {
	out, in   *record.Line
	peerWrong int64
}

// lines are those that there are.
func (r result) lines() []*record.Line {
	return slices.DeleteFunc([]*record.Line{r.out, r.in}, func(l *record.Line) bool { return l == nil })
}

// row measures one collective at one size.
func (s *job) row(ctx context.Context, coll *collective, t kernels.Type, op kernels.Op, count int64, mk maker) (result, error) {
	root := -1
	if coll.rooted {
		root = s.cfg.root
	}
	p := pass{
		coll: coll, typ: t, op: op, root: root, count: count, rank: s.c.Rank(), ranks: s.ranks,
		layout: newLayout(coll, count, t.Size(), s.ranks, int64(len(s.pool.src)), s.cfg.warm),
		pool:   s.pool, make: mk,
	}
	if s.cfg.form == persistent {
		p.limit(mostPersistent, int64(s.ranks))
	}
	p.restore()
	var ours, theirs [2]*lane // out of place, in place
	var lanes []*lane
	for place := range ours {
		if place == 0 && coll.oneSided {
			continue
		}
		mine := p.in(place == 1)
		c, err := newWeft(s.c, mine, s.cfg.form)
		if err != nil {
			return result{}, err
		}
		ours[place] = &lane{name: "weft", contender: c, pass: mine, tamper: s.program.tamper}
		lanes = append(lanes, ours[place])
	}
	if s.peer != nil && s.peer.start != nil {
		for place := range theirs {
			if ours[place] == nil {
				continue
			}
			other := p.in(place == 1)
			other.pool = s.peerPool
			if place == 1 && s.cfg.memory == "symmetric" {
				other.restore()
			}
			if c := s.peer.start(other); c != nil {
				theirs[place] = &lane{name: s.peer.name, contender: c, pass: other}
				lanes = append(lanes, theirs[place])
			}
		}
	}
	before := transportCounters(s.c)
	m := meter{c: s.c, cfg: s.cfg, cost: s.cost}
	if err := m.measure(ctx, lanes); err != nil {
		return result{}, err
	}
	events, err := s.events(ctx, before)
	if err != nil {
		return result{}, err
	}
	var r result
	for place, l := range ours {
		if l == nil {
			continue
		}
		line := s.line(l, events)
		if theirs[place] != nil {
			s.compare(line, theirs[place])
			r.peerWrong += theirs[place].wrong
		} else if s.peer != nil {
			line.Peer = s.peer.name
		}
		if place == 0 {
			r.out = line
		} else {
			r.in = line
		}
	}
	return r, nil
}

// events is what the transports of all ranks counted since before.
func (s *job) events(ctx context.Context, before counters) (counters, error) {
	now := transportCounters(s.c)
	sum := []uint64{
		now.reports - before.reports, now.retries - before.retries,
		now.reroutes - before.reroutes, now.alias - before.alias, now.pointer - before.pointer,
	}
	err := collectives.AllReduce(ctx, s.c, sum, sum, kernels.Sum)
	return counters{sum[0], sum[1], sum[2], sum[3], sum[4]}, err
}

// line is what is told of a lane.
func (s *job) line(l *lane, events counters) *record.Line {
	p := l.pass
	sum := summarize(l.samples)
	line := &record.Line{
		Library: "weft", Coll: p.coll.name, Algo: algorithm(s.c, p.call(), s.cfg.memory == "symmetric"),
		Transport: transportName(s.c), Memory: s.cfg.memory, Form: string(s.cfg.form), Device: "cpu",
		Ranks: s.ranks, Bytes: s.bytes, Count: p.count, Type: typeName(p.typ), Op: "none", Root: p.root, InPlace: p.inPlace,
		TimeUS: sum.median * 1e6, P50US: sum.median * 1e6, P99US: sum.p99 * 1e6, MeanUS: sum.mean * 1e6,
		SpreadPct: sum.spread * 100, Batch: l.batch, Batches: l.batches * s.cfg.blocks, Warm: s.cfg.warm,
		Reports: events.reports, Retries: events.retries, Reroutes: events.reroutes,
		ByAlias: events.alias, ByPointer: events.pointer, Env: s.env,
	}
	setUsage(line, l.used)
	if p.coll.reduces {
		line.Op = p.op.String()
	}
	if sum.median > 0 {
		line.AlgBW = float64(s.bytes) / sum.median / 1e9
	}
	if f := p.coll.busFactor(s.ranks); f > 0 {
		bus := line.AlgBW * f
		line.BusBW = &bus
	}
	if s.cfg.check > 0 {
		line.Wrong = &l.wrong
	}
	return line
}

// compare adds the peer's times to a line.
func (s *job) compare(line *record.Line, l *lane) {
	sum := summarize(l.samples)
	setPeer(line, s.peer.name, sum.median*1e6, sum.spread*100)
	setPeerUsage(line, l.used)
}

// lookUp adds the times of another run to a line, if it has them.
func (s *job) lookUp(line *record.Line) {
	if o := s.peer.find(line); o != nil {
		setPeer(line, s.peer.name, o.P50US, o.SpreadPct)
	}
}

func setPeer(line *record.Line, name string, us, spread float64) {
	line.Peer, line.PeerP50US, line.PeerSpreadPct = name, &us, &spread
	if line.P50US > 0 {
		ratio := us / line.P50US
		line.Ratio = &ratio
	}
}
