package harness

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weft-go/weft/collectives"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

const (
	batchTime  = 100 * time.Microsecond // what a batch should last at least
	gpuTime    = time.Millisecond       // likewise on GPUs, whose first call comes later than the mark before it
	mostBatch  = 2000                   // calls
	mostBlocks = 2000                   // batches of a block
	fewest     = 2                      // batches of a block
	trials     = 3                      // of each length
)

// A lane is one contender in one place of a row, and what was measured of it.
type lane struct {
	name      string
	contender contender
	pass      *pass
	tamper    tamperer

	batch   int         // calls of a batch
	batches int         // of a block
	samples [][]float64 // by block: seconds per call
	wrong   int64       // elements, here and then on all ranks
	use     processorUse
	used    []float64 // its sums, of all ranks
}

// unit is the number of calls that the contender makes at once.
func (l *lane) unit() int {
	if b, ok := l.contender.(batcher); ok {
		return b.unit()
	}
	return 1
}

// A meter measures the lanes of a row. All ranks do the same.
type meter struct {
	c    *comm.Communicator
	cfg  *config
	next int64 // number of the next call of any lane, by which slots rotate
	cost waitCosts
}

func (m *meter) barrier(ctx context.Context) error { return collectives.Barrier(ctx, m.c) }

// take returns the number of the next call that is a multiple of unit, and passes over so many.
func (m *meter) take(calls, unit int) int64 {
	first := int64(roundUp(int(m.next), unit))
	m.next = first + int64(calls)
	return first
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// agree returns the largest of all ranks' values.
func (m *meter) agree(ctx context.Context, values []float64) error {
	return collectives.AllReduce(ctx, m.c, values, values, kernels.Max)
}

// measure checks and times the lanes.
func (m *meter) measure(ctx context.Context, lanes []*lane) error {
	for _, l := range lanes {
		if m.cfg.check > 0 {
			if err := l.check(ctx, m, m.cfg.check); err != nil {
				return err
			}
		}
	}
	for _, l := range lanes {
		if err := m.plan(ctx, l); err != nil {
			return err
		}
	}
	for b := range m.cfg.blocks {
		for i := range lanes {
			l := lanes[i]
			if b%2 == 1 {
				l = lanes[len(lanes)-1-i]
			}
			if err := m.block(ctx, l, b == m.cfg.blocks-1); err != nil {
				return err
			}
		}
	}
	return m.collect(ctx, lanes)
}

// plan warms a lane up and finds the length and the number of its batches.
func (m *meter) plan(ctx context.Context, l *lane) error {
	if m.cfg.warmup > 0 {
		if _, err := m.timed(ctx, l, roundUp(m.cfg.warmup, l.unit())); err != nil {
			return err
		}
	}
	var each float64 // seconds per call
	for calls := l.unit(); ; calls *= 2 {
		trial := make([]float64, trials)
		for i := range trial {
			d, err := m.timed(ctx, l, calls)
			if err != nil {
				return err
			}
			trial[i] = d.Seconds()
		}
		if err := m.agree(ctx, trial); err != nil {
			return err
		}
		least := slices.Min(trial) // the one that was disturbed least
		if each = least / float64(calls); least >= 3*m.cfg.batchTime().Seconds() || calls >= mostBatch {
			break
		}
	}
	each = max(each, 1e-9)
	l.batch = roundUp(batchLength(m.cfg, l.pass, each), l.unit())
	l.batches = batchCount(m.cfg, l.batch, each)
	l.samples = make([][]float64, 0, m.cfg.blocks)
	return nil
}

// batchTime is what a batch should last at least. The longest trial lasts three times that.
func (c *config) batchTime() time.Duration {
	if c.device == "cuda" {
		return gpuTime
	}
	return batchTime
}

// batchLength is the number of calls in a batch if one takes so many seconds.
func batchLength(cfg *config, p *pass, each float64) int {
	n := cfg.batch
	if n == 0 {
		n = int(math.Ceil(min(cfg.batchTime().Seconds()/each, mostBatch) - 1e-6))
		if cfg.iters > 0 {
			n = min(n, max(1, cfg.iters/(fewest*cfg.blocks)))
		}
	}
	if p.coll.rooted && p.root < 0 {
		n = (n + p.ranks - 1) / p.ranks * p.ranks // every rank is the root as often
	}
	return n
}

// batchCount is the number of batches in a block.
func batchCount(cfg *config, batch int, each float64) int {
	if cfg.iters > 0 {
		calls := batch * cfg.blocks
		return max(1, (cfg.iters+calls-1)/calls)
	}
	perBlock := cfg.budget.Seconds() / float64(cfg.blocks)
	return int(min(max(perBlock/(each*float64(batch)), fewest), mostBlocks))
}

// timed makes calls after a barrier.
func (m *meter) timed(ctx context.Context, l *lane, calls int) (time.Duration, error) {
	if err := m.barrier(ctx); err != nil {
		return 0, err
	}
	d, err := l.contender.run(ctx, m.take(calls, l.unit()), calls)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", l.name, err)
	}
	return d, nil
}

// block times a block of batches. The last call of the last one is checked, so
// that what is timed is what is right.
func (m *meter) block(ctx context.Context, l *lane, last bool) error {
	if m.cfg.warm && l.pass.inPlace {
		if err := l.pass.restore(); err != nil {
			return err
		}
	}
	samples := make([]float64, l.batches)
	watch := startWatch(m.c)
	for i := range samples {
		d, err := m.timed(ctx, l, l.batch)
		if err != nil {
			return err
		}
		samples[i] = d.Seconds() / float64(l.batch)
	}
	watch.stop(m.c, l.batches*l.batch, &l.use)
	l.samples = append(l.samples, samples)
	if last && m.cfg.check > 0 && !l.pass.inPlace {
		if err := l.pass.pull(m.next - 1); err != nil {
			return err
		}
		l.wrong += l.pass.verify(m.next-1, l.tamper)
	}
	return nil
}

// collect replaces each sample by the largest of all ranks, and adds up what is wrong
// and what was used.
func (m *meter) collect(ctx context.Context, lanes []*lane) error {
	wrong := make([]int64, len(lanes))
	for i, l := range lanes {
		for _, samples := range l.samples {
			if err := m.agree(ctx, samples); err != nil {
				return err
			}
		}
		wrong[i] = l.wrong
		l.used = l.use.sums(m.cost)
		if err := collectives.AllReduce(ctx, m.c, l.used, l.used, kernels.Sum); err != nil {
			return err
		}
	}
	if err := collectives.AllReduce(ctx, m.c, wrong, wrong, kernels.Sum); err != nil {
		return err
	}
	for i, l := range lanes {
		l.wrong = wrong[i]
	}
	return nil
}
