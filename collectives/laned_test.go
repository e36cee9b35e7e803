package collectives

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// lanedCounter counts what is sent without a schedule.
type lanedCounter struct {
	lanes
	sent int
}

func (l *lanedCounter) Send(peer int, data []byte) error {
	l.sent++
	return l.lanes.Send(peer, data)
}

// TestExactLaned: every collective, type and operator by rounds of messages, in small chunks,
// while phases fail.
func TestExactLaned(t *testing.T) {
	seed := testSeed(t)
	for _, faults := range []string{"", fmt.Sprintf("seed=%d,rate=0.05", seed)} {
		cs := local(t, 2, comm.WithTransport("fabric:fast"), comm.WithFaults(faults), comm.WithTimeout(time.Minute))
		require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
			r, err := extension(c)
			if err != nil {
				return err
			}
			if !r.laned || r.stages {
				return errors.New("no rounds")
			}
			r.limits = smallStages
			for i, k := range exactCases() {
				for j, count := range []int{1, 31, 63, 64, 65, 127, 129, 257, 375, 625, 750, 1501, 3001} {
					if i != 1 && (i+j)%20 != 0 || raceEnabled && (i+j)%60 != 0 {
						continue
					}
					if err := k.run(context.Background(), c, count, seed+uint64(100*i+j), blocking|persistent); err != nil {
						c.Abort(err) // the other would wait
						return fmt.Errorf("%s, count %d: %w", k.name, count, err)
					}
				}
			}
			return nil
		})...))
	}
}

// TestLanedNames: Algorithm names what runs, which is rounds between two ranks unless
// something else is asked for.
func TestLanedNames(t *testing.T) {
	for _, spec := range []string{"", "allreduce:twoshot"} {
		for _, n := range []int{2, 3} {
			cs := local(t, n, comm.WithTransport("fabric:fast"), comm.WithAlgorithm(spec))
			require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
				r, err := extension(c)
				if err != nil {
					return err
				}
				sent := &lanedCounter{lanes: r.x.lanes}
				r.x.lanes = sent
				for _, count := range []int{1, 1000, 40_000} {
					call := comm.Call{Collective: comm.OpAllReduce, Type: kernels.TypeFloat32, Op: kernels.Sum, Count: count}
					name, err := Algorithm(c, call)
					if err != nil {
						return err
					}
					x, schedules := make([]float32, count), len(r.schedules)
					sent.sent = 0
					if err := AllReduce(context.Background(), c, x, x, kernels.Sum); err != nil {
						return err
					}
					planned := len(r.schedules) > schedules
					rounds := n == 2 && !r.chooser.spec.Restricts(plan.AllReduce)
					if planned == rounds || (name == lanedName) != rounds || rounds && sent.sent == 0 {
						return fmt.Errorf("%d elements, %q: named %q, %d messages, by a schedule: %t", count, spec, name, sent.sent, planned)
					}
				}
				return nil
			})...))
		}
	}
}
