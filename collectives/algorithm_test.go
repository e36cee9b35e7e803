package collectives

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// rounds are what calls of a rank have used so far: rounds over stages, and schedules.
func rounds(c *comm.Communicator) (stages uint64, schedules int, err error) {
	e, err := c.Begin(context.Background(), comm.Call{Collective: comm.OpBarrier})
	if err != nil {
		return 0, 0, err
	}
	if r, ok := e.Extension.(*runner); ok && e.StageSlots() > 0 {
		stages, schedules = e.StageRound(), len(r.schedules)
	}
	return stages, schedules, c.End(nil)
}

// TestAlgorithmNames: Algorithm says how a call is done.
func TestAlgorithmNames(t *testing.T) {
	listed := map[string]bool{}
	for _, name := range plan.Algorithms(plan.AllReduce) {
		listed[name] = true
	}
	for _, n := range []int{2, 3, 17} {
		for _, spec := range []string{"", "allreduce:ring"} {
			t.Run(fmt.Sprintf("ranks=%d/%s", n, spec), func(t *testing.T) {
				errs := each(local(t, n, comm.WithAlgorithm(spec)), func(c *comm.Communicator) error {
					ctx := context.Background()
					b, err := comm.Alloc[float32](ctx, c, 4096)
					if err != nil {
						return err
					}
					for _, count := range []int{1, 140, 141, 255, 256, 257, 1024, 1025, 4096} {
						for _, symmetric := range []bool{false, true} {
							x, find := make([]float32, count), Algorithm
							if symmetric {
								x, find = b.Slice()[:count], SymmetricAlgorithm
							}
							name, err := find(c, comm.Call{Collective: comm.OpAllReduce, Type: kernels.TypeFloat32, Op: kernels.Sum, Count: count})
							if err != nil {
								return err
							}
							stages, schedules, err := rounds(c)
							if err = errors.Join(err, AllReduce(ctx, c, x, x, kernels.Sum)); err != nil {
								return err
							}
							stagesNow, schedulesNow, err := rounds(c)
							if err != nil {
								return err
							}
							used := "neither"
							switch {
							case stagesNow > stages:
								used = stagedName
							case schedulesNow > schedules || n == 17 || spec != "":
								used = "schedule"
							}
							good := name == used || used == "schedule" && listed[name] || used == "neither" && (name == shortName && count <= 1024 || name == symmetricName && symmetric)
							if !good {
								return fmt.Errorf("%d elements, symmetric %v: %s, and it used %s", count, symmetric, name, used)
							}
						}
					}
					return nil
				})
				require.NoError(t, errors.Join(errs...))
			})
		}
	}
}

// TestAlgorithmNamesOthers: so it does for what goes to, from or through one rank.
func TestAlgorithmNamesOthers(t *testing.T) {
	for _, spec := range []string{"", "scan:chain;exscan:doubling;gather:direct;scatter:tree"} {
		t.Run(spec, func(t *testing.T) {
			errs := each(local(t, 4, comm.WithAlgorithm(spec)), func(c *comm.Communicator) error {
				ctx := context.Background()
				for _, count := range []int{1, 140, 141, 5000} {
					x, y := make([]float32, 4*count), make([]float32, 4*count)
					for _, k := range []struct {
						kind  comm.Collective
						asked string
						call  func() error
					}{
						{comm.OpScan, "chain", func() error { return Scan(ctx, c, x[:count], y[:count], kernels.Sum) }},
						{comm.OpExscan, "doubling", func() error { return Exscan(ctx, c, x[:count], y[:count], kernels.Sum) }},
						{comm.OpGather, "direct", func() error { return Gather(ctx, c, x, y[:count], 2) }},
						{comm.OpScatter, "tree", func() error { return Scatter(ctx, c, x[:count], y, 2) }},
					} {
						name, err := Algorithm(c, comm.Call{Collective: k.kind, Type: kernels.TypeFloat32, Op: kernels.Sum, Count: count, Root: 2})
						if err != nil {
							return err
						}
						stages, schedules, err := rounds(c)
						if err = errors.Join(err, k.call()); err != nil {
							return err
						}
						stagesNow, schedulesNow, err := rounds(c)
						if err != nil {
							return err
						}
						used := shortName
						switch {
						case stagesNow > stages:
							used = stagedName
						case schedulesNow > schedules:
							used = k.asked
						}
						if name != used || (spec != "") != (used == k.asked) {
							return fmt.Errorf("%v of %d elements: %s, and it used %s", k.kind, count, name, used)
						}
					}
				}
				return nil
			})
			require.NoError(t, errors.Join(errs...))
		})
	}
}

// TestNoSuchAlgorithm: what no algorithm is called is refused before anything is called.
func TestNoSuchAlgorithm(t *testing.T) {
	for spec, text := range map[string]string{
		"quantum":                    "unknown algorithm",
		"allsort:ring":               "unknown collective",
		"alltoall:ring":              "unknown algorithm",
		"allreduce:ring;nocast:tree": "unknown collective",
	} {
		_, err := comm.Local(2, comm.WithAlgorithm(spec))
		require.ErrorIs(t, err, comm.ErrArgument)
		require.ErrorContains(t, err, spec)
		require.ErrorContains(t, err, text)
		t.Setenv("WEFT_ALGO", spec)
		_, err = comm.Local(2)
		require.ErrorIs(t, err, comm.ErrArgument)
		require.ErrorContains(t, err, "WEFT_ALGO")
		t.Setenv("WEFT_ALGO", "")
	}
}
