package collectives

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/ranktest"
	"github.com/weft-go/weft/kernels"
)

// TestFabricExact has all collectives in all forms over the software fabric, with
// and without faults; among more than 4 ranks with a few counts, with WEFT_TEST_LONG=1 all.
func TestFabricExact(t *testing.T) {
	seed := testSeed(t)
	for _, tt := range []struct {
		transport, faults string
		ranks             []int
	}{
		{"fabric:strict", "", []int{2, 6}},
		{"fabric:fast", "", []int{3, 9}},
		{"fabric", "rate=0.02", []int{2, 3, 5}},
		{"fabric:fast", "rate=0.05", []int{2, 4, 7}},
		{"fabric:fast", "rate=0.01,dead=0>1@40", []int{3, 8}},
	} {
		ranks := tt.ranks
		if testLong {
			ranks = []int{2, 3, 4, 5, 6, 7, 8, 9}
		}
		if raceEnabled || testing.Short() {
			ranks = ranks[:1]
		}
		for _, n := range ranks {
			t.Run(fmt.Sprintf("%s/%s/ranks=%d", tt.transport, tt.faults, n), func(t *testing.T) {
				faults := tt.faults
				if faults != "" {
					faults = fmt.Sprintf("seed=%d,%s", seed, faults)
				}
				cs := local(t, n, comm.WithTransport(tt.transport), comm.WithFaults(faults), comm.WithTimeout(time.Minute))
				require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
					if n > 4 && !testLong {
						return exactFew(c, seed)
					}
					return exactAll(c, seed, true)
				})...))
			})
		}
	}
}

// exactFew has every collective with a few counts of two types, one of numbers and one that
// functions reduce.
func exactFew(c *comm.Communicator, seed uint64) error {
	cases := exactCases()
	for i, k := range []exactCase{cases[1], cases[4]} {
		for j, count := range []int{1, c.Size() + 1, 1000} {
			set := blocking | persistent
			if j == 1 {
				set = allForms
			}
			if err := k.run(context.Background(), c, count, seed+uint64(100*i+j), set); err != nil {
				return fmt.Errorf("%s, count %d: %w", k.name, count, err)
			}
		}
	}
	return nil
}

// TestFabricProcesses has the same between processes, started by mpirun.
func TestFabricProcesses(t *testing.T) {
	seed := testSeed(t)
	for _, tt := range []struct {
		program, transport, faults string
		ranks                      int
	}{
		{"exact", "fabric", "rate=0.02", 2},
		{"exact", "fabric:fast", "rate=0.05", 3},
		{"messages", "fabric:fast", "rate=0.05", 3},
	} {
		t.Run(fmt.Sprintf("%s/%s/ranks=%d", tt.program, tt.transport, tt.ranks), func(t *testing.T) {
			ranktest.Mpirun(t, tt.ranks, tt.program, nil, fmt.Sprintf("WEFT_TEST_SEED=%d", seed),
				"WEFT_TRANSPORT="+tt.transport, fmt.Sprintf("WEFT_FAULTS=seed=%d,%s", seed, tt.faults)).Succeed(t, 3*time.Minute)
		})
	}
}

// TestFabricStats: programs can read what failed and what was done about it.
func TestFabricStats(t *testing.T) {
	cs := local(t, 2, comm.WithTransport("fabric:fast"), comm.WithFaults("seed=3,rate=0.2"))
	require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
		x := make([]int32, 3000)
		for range 50 {
			if err := AllReduce(context.Background(), c, x, x, kernels.Sum); err != nil {
				return err
			}
		}
		stats, err := c.Stats()
		if s := stats[1-c.Rank()]; err == nil && (s.Messages < 50 || s.Reports == 0 || s.Retries == 0 || s.Replaced == 0) {
			err = fmt.Errorf("%+v", s)
		}
		return err
	})...))
	// They are still there when the communicator has ended, and when it is closed.
	before, err := cs[0].Stats()
	require.NoError(t, err)
	cs[0].Abort(errors.New("enough"))
	require.ErrorIs(t, cs[0].AsyncErr(), comm.ErrAborted)
	for range 2 {
		after, err := cs[0].Stats()
		require.NoError(t, err)
		require.Equal(t, before, after)
		waits, err := cs[0].Waits()
		require.NoError(t, err)
		require.NotZero(t, waits)
		require.NoError(t, cs[0].Close())
	}
}

// TestFabricReplay: the faults of a run are logged, and happen again by the log.
func TestFabricReplay(t *testing.T) {
	first, second := t.TempDir()+"/first", t.TempDir()+"/second"
	run := func(faults, log string) (lines []string) {
		cs, err := comm.Local(2, comm.WithTransport("fabric:fast"), comm.WithFaults(faults), comm.WithFaultLog(log))
		require.NoError(t, err)
		require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
			x := make([]int32, 3000)
			for range 20 {
				if err := AllReduce(context.Background(), c, x, x, kernels.Sum); err != nil {
					return err
				}
			}
			return c.Close()
		})...))
		for r := range 2 {
			b, err := os.ReadFile(fmt.Sprintf("%s.%d", log, r))
			require.NoError(t, err)
			lines = append(lines, strings.Split(strings.TrimSpace(string(b)), "\n")...)
		}
		return lines
	}
	// One phase of each link: what is tried again, and so the numbers of later
	// phases, may depend on how fast the ranks are.
	made := run("seed=4,rate=1,from=5,to=6", first)
	require.Len(t, made, 2)
	require.ElementsMatch(t, made, run("@"+first, second))
	_, err := comm.Local(2, comm.WithFaults("@"+first+"-which-is-not-there"))
	require.ErrorIs(t, err, comm.ErrArgument)
}
