package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weft-go/weft/bench/internal/record"
	"github.com/weft-go/weft/kernels"
	engine "github.com/weft-go/weft/transport/progress"
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
func (s *job) row(ctx context.Context, coll *collective, t kernels.Type, op kernels.Op, count int64, mk maker) (r result, err error) {
	var lanes []*lane
	root := -1
	if coll.rooted {
		root = s.cfg.root
	}
	p := pass{
		coll: coll, typ: t, op: op, root: root, count: count, rank: s.c.Rank(), ranks: s.ranks,
		layout: newLayout(coll, count, t.Size(), s.ranks, int64(len(s.pool.src)), s.cfg.warm),
		pool:   s.pool, make: mk,
	}
	switch {
	case s.cfg.form == persistent:
		p.limit(mostPersistent, int64(s.ranks))
	case s.gpu != nil:
		p.slots = gpuSlots(p.slots)
	}
	if s.cfg.form == graph {
		p.wrap = max(p.slots, graphCalls)
	}
	if err := p.restore(); err != nil {
		return result{}, err
	}
	defer func() {
		for _, l := range lanes {
			if b, ok := l.contender.(batcher); ok {
				err = errors.Join(err, b.close())
			}
		}
	}()
	var ours, theirs [2]*lane // out of place, in place
	for place := range ours {
		if place == 0 && coll.oneSided {
			continue
		}
		mine := p.in(place == 1)
		c, err := s.ours(ctx, mine)
		if err != nil {
			return result{}, err
		}
		ours[place] = &lane{name: "weft", contender: c, pass: mine, tamper: s.program.tamper}
		lanes = append(lanes, ours[place])
	}
	if s.peer.runs() {
		for place := range theirs {
			if ours[place] == nil {
				continue
			}
			other := p.in(place == 1)
			other.pool = s.peerPool
			if place == 1 && s.apart() {
				if err := other.restore(); err != nil {
					return result{}, err
				}
			}
			c, err := s.theirs(ctx, other)
			if err != nil {
				return result{}, fmt.Errorf("%s: %w", s.peer.name, err)
			}
			if c != nil {
				theirs[place] = &lane{name: s.peer.name, contender: c, pass: other}
				lanes = append(lanes, theirs[place])
			}
		}
	}
	before := transportStats(s.c)
	m := meter{c: s.c, cfg: s.cfg, cost: s.cost}
	if err := m.measure(ctx, lanes); err != nil {
		return result{}, err
	}
	events, err := s.events(ctx, before)
	if err != nil {
		return result{}, err
	}
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

// ours is the contender that is this library.
func (s *job) ours(ctx context.Context, p *pass) (contender, error) {
	if s.gpu != nil {
		return s.gpu.newGPU(ctx, s.gpu.weft(p), s.cfg.form)
	}
	return newWeft(s.c, p, s.cfg.form)
}

// theirs is the contender that is the peer, or nil where it has no such call.
func (s *job) theirs(ctx context.Context, p *pass) (contender, error) {
	if s.gpu == nil {
		return s.peer.start(p), nil
	}
	k := s.gpu.peer(p)
	if k == nil {
		return nil, nil
	}
	return s.gpu.newGPU(ctx, k, s.cfg.form)
}

// apart says whether the peer has other memory than ours.
func (s *job) apart() bool { return s.peer.runs() && s.gpu == nil && s.cfg.memory == "symmetric" }

// transport is how the ranks reach each other.
func (s *job) transport() string {
	if s.gpu != nil {
		return "cuda"
	}
	return transportName(s.c)
}

// line is what is told of a lane.
func (s *job) line(l *lane, events engine.PeerStats) *record.Line {
	p := l.pass
	sum := summarize(l.samples)
	line := &record.Line{
		Library: "weft", Coll: p.coll.name, Algo: "device",
		Transport: s.transport(), Memory: s.cfg.memory, Form: string(s.cfg.form), Device: s.cfg.device,
		Ranks: s.ranks, Bytes: s.bytes, Count: p.count, Type: typeName(p.typ), Op: "none", Root: p.root, InPlace: p.inPlace,
		TimeUS: sum.median * 1e6, P50US: sum.median * 1e6, P99US: sum.p99 * 1e6, MeanUS: sum.mean * 1e6,
		SpreadPct: sum.spread * 100, Batch: l.batch, Batches: l.batches * s.cfg.blocks, Warm: s.cfg.warm,
		Reports: events.Reports, Retries: events.Retries, Reroutes: events.Reroutes.All(),
		ByAlias: events.Reroutes.Alias, ByPointer: events.Reroutes.Pointer, Env: s.env,
	}
	if s.gpu == nil {
		line.Algo = algorithm(s.c, p.call(), s.cfg.memory == "symmetric")
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
