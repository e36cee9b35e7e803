//go:build rules

package progress

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric"
	"github.com/weft-go/weft/transport/progress/lane"
)

// putting is a transport that puts words instead of raising them.
type putting struct{ transport.Transport }

func (p putting) Red(c transport.Completion, dst transport.Handle, src []byte, op transport.RedOp, typ kernels.Type) error {
	if op == transport.RedMax {
		return p.Put(c, dst, src)
	}
	return p.Transport.Red(c, dst, src, op, typ)
}

// errStopped: the ranks were stopped because one of them did not get on.
var errStopped = errors.New("stopped by the test")

// A missedRule is one that a soak misses within seconds, and the soak that does.
type missedRule struct {
	rule  string
	plan  string
	calls int
	lag   bool // some phases are given up
	multi bool // pulls and not messages
}

var missed = []missedRule{
	{rule: "repeatPlain", plan: "rate=0.1", calls: 100},
	{rule: "headerLast", plan: "rate=0.1", calls: 100},
	{rule: "quarantine", plan: "rate=0.2,kinds=late", calls: 200},
	{rule: "quarantineSlot", plan: "rate=0.3,kinds=late", calls: 200},
	{rule: "freshOffsets", plan: "rate=0.1", calls: 100},
	{rule: "behindLast", plan: "rate=0.3,kinds=late", calls: 200},
	{rule: "awaitCredit", plan: "rate=0", calls: 100},
	{rule: "holdSource", plan: "rate=0.001,kinds=ack", calls: 150, lag: true},
	{rule: "growOnly", plan: "rate=0.3,kinds=late", calls: 200},
	{rule: "reissue", plan: "rate=0.1", calls: 100},
	{rule: "retireZones", plan: "rate=0.3,kinds=late", calls: 60, multi: true},
}

// TestWithout takes rules away from engines that talk over a fabric that fails: sooner
// or later one of them reads bytes that are not those of the message, or waits for ever.
// With the rule the same runs end well.
func TestWithout(t *testing.T) {
	const most = 400
	for _, m := range missed {
		t.Run(m.rule, func(t *testing.T) {
			seed := newSeed(t)
			found, runs := "", 0
			for end := time.Now().Add(30 * time.Second); found == "" && runs < most && time.Now().Before(end); runs++ {
				found = finding(m.run(t, seed+uint64(runs), m.rule, 2*time.Second))
			}
			t.Logf("%s in run %d", found, runs)
			require.NotEmpty(t, found)
			for i := range runs {
				require.NoError(t, m.run(t, seed+uint64(i), "", time.Minute))
			}
		})
	}
}

// finding says what a soak found. That a counter counted too much is the end of a
// communicator, and no finding.
func finding(err error) string {
	var mismatch *MismatchError
	switch {
	case err == nil:
	case strings.Contains(err.Error(), "differs"), errors.As(err, &mismatch):
		return "wrong bytes: " + err.Error()
	case errors.Is(err, errStopped):
		return "hang"
	}
	return ""
}

// run has two ranks talk without a rule, if there is one, and stops them after a time.
func (m *missedRule) run(t *testing.T, seed uint64, rule string, atMost time.Duration) error {
	es := openFabric(t, failing(2), []fabric.Mode{fabric.ModeDefault, fabric.ModeFast}[seed%2], seed, fmt.Sprintf("seed=%d,%s", seed, m.plan), func(c *Config) {
		if m.lag {
			c.Transport = &lagging{Transport: c.Transport, rng: rand.New(rand.NewPCG(seed, uint64(c.Rank))), rate: 0.1, lag: 4 * time.Millisecond}
			c.Retry.PhaseTimeout = time.Millisecond
		}
		if rule == "growOnly" {
			c.Transport = putting{c.Transport}
		}
	})
	stop := func(why error) {
		for _, e := range es {
			e.cfg.Stop.Set(why)
		}
	}
	defer time.AfterFunc(atMost, func() { stop(errStopped) }).Stop()
	errs := make(chan error, len(es))
	for _, e := range es {
		if rule != "" && rule != "growOnly" {
			for p := range e.out {
				e.out[p].Without(rule)
				e.in[p].Receiver.Without(rule)
				e.in[p].credit.Without(rule)
				e.out[p].places.Without(rule)
				e.in[p].places.Without(rule)
			}
			for i := range e.group.flights {
				z := &e.group.flights[i].zones
				*z = zones{Zones: lane.NewZones(zoneCount)}
				z.Without(rule)
			}
		}
		go func() {
			err := m.talk(e, seed)
			if err != nil {
				stop(errors.New("the other rank failed"))
			}
			errs <- err
		}()
	}
	return errors.Join(<-errs, <-errs)
}

func (m *missedRule) talk(e *Engine, seed uint64) error {
	if !m.multi {
		return talk(e, seed, m.calls)
	}
	const bytes = 2048 // of a pull, each from another place than the last
	value := func(call, rank, o int) uint64 { return uint64(call*1000003 + rank*1009 + o) }
	got := make([]byte, bytes)
	for call := range m.calls {
		e.Begin(context.Background(), time.Minute, uint64(call), 7)
		if err := e.OpenMulti(context.Background(), 2*bytes, 0); err != nil {
			return err
		}
		own := e.Multi()
		for o := 0; o < 2*bytes; o += 8 {
			binary.NativeEndian.PutUint64(own[o:], value(call, e.rank, o))
		}
		if err := barrier(e); err != nil {
			return err
		}
		from := call % 2 * bytes
		if err := e.PullReduce(got, uint64(from), transport.RedAdd, kernels.TypeUint64); err != nil {
			return err
		}
		for o := 0; o < bytes; o += 8 {
			want := value(call, 0, from+o) + value(call, 1, from+o)
			if sum := binary.NativeEndian.Uint64(got[o:]); sum != want {
				return fmt.Errorf("call %d: the sum at %d differs: %d, not %d", call, o, sum, want)
			}
		}
		if err := barrier(e); err != nil {
			return err
		}
	}
	return nil
}
