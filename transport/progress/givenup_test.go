package progress

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric"
)

// lagging is a transport some of whose phases take far longer than the engine
// waits. They read their sources and are carried out at the end.
type lagging struct {
	transport.Transport
	rng  *rand.Rand
	rate float64
	lag  time.Duration
}

type lagCompletion struct {
	transport.Completion
	t      *lagging
	ops    []func() error
	until  time.Time // zero: not decided
	failed bool
}

func (l *lagging) NewCompletion(n int) (transport.Completion, error) {
	c, err := l.Transport.NewCompletion(n)
	return &lagCompletion{Completion: c, t: l}, err
}

func (c *lagCompletion) start(op func() error) error {
	c.ops = append(c.ops, op)
	return nil
}

func (c *lagCompletion) Submit() error {
	c.until, c.failed = time.Now(), false
	if c.t.rng.Float64() < c.t.rate {
		c.until = c.until.Add(time.Duration(c.t.rng.Int64N(int64(c.t.lag))))
		c.failed = c.t.rng.IntN(2) == 0
	}
	return nil
}

func (c *lagCompletion) Arrive() error { return nil }

func (c *lagCompletion) Test() bool {
	if time.Now().Before(c.until) {
		return false
	}
	for _, op := range c.ops {
		if err := op(); err != nil {
			panic(err)
		}
	}
	if c.ops != nil {
		c.ops = nil
		c.Completion.Submit()
		c.Completion.Arrive()
	}
	return c.Completion.Test()
}

func (c *lagCompletion) Report() (transport.Report, error) {
	r, err := c.Completion.Report()
	if c.failed {
		r.Status = transport.StatusFailed
	}
	return r, err
}

func (l *lagging) Put(c transport.Completion, dst transport.Handle, src []byte) error {
	lc := c.(*lagCompletion)
	return lc.start(func() error { return l.Transport.Put(lc.Completion, dst, src) })
}

func (l *lagging) PutCounted(c transport.Completion, dst transport.Handle, src []byte, counter uint64) error {
	lc := c.(*lagCompletion)
	return lc.start(func() error { return l.Transport.PutCounted(lc.Completion, dst, src, counter) })
}

func (l *lagging) Red(c transport.Completion, dst transport.Handle, src []byte, op transport.RedOp, typ kernels.Type) error {
	lc := c.(*lagCompletion)
	return lc.start(func() error { return l.Transport.Red(lc.Completion, dst, src, op, typ) })
}

func (l *lagging) PutMultimem(c transport.Completion, dst transport.Handle, src []byte) error {
	lc := c.(*lagCompletion)
	return lc.start(func() error { return l.Transport.PutMultimem(lc.Completion, dst, src) })
}

func (l *lagging) PullRed(c transport.Completion, dst []byte, src transport.Handle, op transport.RedOp, typ kernels.Type) error {
	lc := c.(*lagCompletion)
	return lc.start(func() error { return l.Transport.PullRed(lc.Completion, dst, src, op, typ) })
}

// TestGivenUp has phases be given up that are carried out later, from sources that
// must not have changed by then although their sender has gone on.
func TestGivenUp(t *testing.T) {
	for n := 2; n <= 3; n++ {
		seed := newSeed(t)
		// The plan has the race detector not see that the same bytes are written again
		// while they are read.
		es := openFabric(t, failing(n), fabric.ModeFast, seed, "rate=0.001,kinds=ack", func(c *Config) {
			c.Transport = &lagging{Transport: c.Transport, rng: rand.New(rand.NewPCG(seed, uint64(c.Rank))), rate: 0.1, lag: 4 * time.Millisecond}
			c.Retry.PhaseTimeout = time.Millisecond
		})
		errs := make(chan error, n)
		for _, e := range es {
			go func() { errs <- talk(e, seed, 150) }()
		}
		for range n {
			require.NoError(t, <-errs)
		}
		var sum PeerStats
		for _, e := range es {
			for _, s := range e.Stats() {
				sum.Add(s)
			}
		}
		require.NotZero(t, sum.Retries)
		require.NotZero(t, sum.ByHeader)
		require.NotZero(t, sum.Replaced)
	}
}

// TestGivenUpMulti has phases on multicast memory be given up.
func TestGivenUpMulti(t *testing.T) {
	seed := newSeed(t)
	es := openFabric(t, failing(3), fabric.ModeFast, seed, "rate=0.001,kinds=ack", func(c *Config) {
		c.Transport = &lagging{Transport: c.Transport, rng: rand.New(rand.NewPCG(seed, uint64(c.Rank))), rate: 0.1, lag: 4 * time.Millisecond}
		c.Retry.PhaseTimeout = time.Millisecond
	})
	reduceAll(t, es, seed, 80)
	for _, e := range es {
		require.NotZero(t, e.Stats()[e.rank].Retries)
		require.NotZero(t, e.Stats()[e.rank].Replaced)
	}
}
