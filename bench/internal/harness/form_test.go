package harness

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/collectives"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/ranktest"
	"github.com/weft-go/weft/kernels"
)

func TestPeriod(t *testing.T) {
	gathers, _ := parseCollectives("gather")
	reduces, _ := parseCollectives("allreduce")
	for _, tt := range []struct {
		coll        *collective
		root, ranks int
		slots, want int64
	}{
		{gathers[0], -1, 4, 8, 8}, {gathers[0], -1, 4, 1, 4}, {gathers[0], -1, 4, 6, 12}, {gathers[0], -1, 3, 2, 6},
		{gathers[0], 1, 4, 6, 6}, {reduces[0], -1, 4, 6, 6},
	} {
		p := &pass{coll: tt.coll, root: tt.root, ranks: tt.ranks, layout: layout{slots: tt.slots}}
		require.Equal(t, tt.want, p.period(), "%+v", tt)
		for call := range 3 * p.period() {
			again := call % p.period()
			require.Equal(t, again%p.slots, call%p.slots)
			if tt.coll.rooted {
				require.Equal(t, p.rootOf(again), p.rootOf(call))
			}
		}
	}
}

// TestForms: each form is the library's of that name, and gives the right result
// in every slot, whatever the root.
func TestForms(t *testing.T) {
	for ranks := 1; ranks <= 3; ranks++ {
		if ranktest.Race && ranks < 3 { // ranks are alike
			continue
		}
		ranktest.Start(t, ranks, "forms").Succeed(t, 2*time.Minute)
	}
}

// forms is a rank of TestForms.
func forms() error {
	ctx := context.Background()
	c, err := comm.Init(ctx, comm.WithTimeout(time.Minute))
	if err != nil {
		return err
	}
	for i := range collectivesTable {
		coll := &collectivesTable[i]
		for _, root := range []int{-1, c.Size() - 1} {
			for _, inPlace := range []bool{false, true} {
				if coll.oneSided && !inPlace || !coll.rooted && root >= 0 {
					continue
				}
				allocated := map[form]float64{}
				for _, f := range []form{blocking, started, persistent} {
					p := &pass{coll: coll, typ: kernels.TypeInt32, op: kernels.Sum, root: root, count: 5, rank: c.Rank(), ranks: c.Size(),
						layout: newLayout(coll, 5, 4, c.Size(), 512, false), pool: heapPool(512), make: newMaker(kernels.TypeInt32, coll.reduces, kernels.Sum, c.Size())}
					p = p.in(inPlace)
					where := fmt.Sprintf("%s %s, root %d, in place %v: ", coll.name, f, root, inPlace)
					if allocated[f], err = tryForm(ctx, c, p, f); err != nil {
						return errors.Join(fmt.Errorf("%s: %w", where, err), c.Close())
					}
				}
				// One rank never waits, which may allocate.
				if c.Size() == 1 && (allocated[started] < 1 || allocated[blocking] > 0 || allocated[persistent] > 0) {
					return errors.Join(fmt.Errorf("%s: allocations %v", coll.name, allocated), c.Close())
				}
			}
		}
	}
	return c.Close()
}

// tryForm makes checked calls one by one, then many at once, and returns how often
// one allocates.
func tryForm(ctx context.Context, c *comm.Communicator, p *pass, f form) (float64, error) {
	lib, err := newWeft(c, p, f)
	if err != nil {
		return 0, err
	}
	for call := range 2*p.period() + 1 {
		p.prepare(call)
		if err := collectives.Barrier(ctx, c); err != nil { // the slots of the other ranks are ready
			return 0, err
		}
		if _, err := lib.run(ctx, call, 1); err != nil {
			return 0, err
		}
		if wrong := p.verify(call, nil); wrong != 0 {
			return 0, fmt.Errorf("call %d: %d elements are wrong", call, wrong)
		}
	}
	next := int64(0)
	const calls = 100
	allocs := testing.AllocsPerRun(3, func() {
		if _, e := lib.run(ctx, next, calls); e != nil {
			err = e
		}
		next += calls + 1 // begins at other slots
	}) / calls
	if err != nil || f != persistent {
		return allocs, err
	}
	// What runs is what was set up.
	w := lib.(*weft[int32])
	if int64(len(w.set)) != p.period() {
		return 0, fmt.Errorf("%d calls are set up, not %d", len(w.set), p.period())
	}
	clear(w.set)
	if _, err := lib.run(ctx, 0, 1); !errors.Is(err, comm.ErrArgument) {
		return 0, fmt.Errorf("a call that is not set up: %v", err)
	}
	return allocs, nil
}
