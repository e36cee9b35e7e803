package collectives

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/ranktest"
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/progress"
)

var planned = plan.Collectives()

// specs are choices of algorithms that between them name every one.
func specs() []string {
	most := 0
	for _, k := range planned {
		most = max(most, len(plan.Algorithms(k)))
	}
	var all []string
	for i := range most {
		var lists []string
		for _, k := range planned {
			names := plan.Algorithms(k)
			lists = append(lists, fmt.Sprintf("%v:%s", k, names[i%len(names)]))
		}
		all = append(all, strings.Join(lists, ";"))
	}
	return all
}

// recorder writes down what goes over the lanes, in the words of a schedule.
type recorder struct {
	lanes
	done []string
}

func (r *recorder) note(format string, args ...any) {
	r.done = append(r.done, fmt.Sprintf(format, args...))
}

func (r *recorder) Send(peer int, data []byte) error {
	r.note("put %d bytes to %d", len(data), peer)
	return r.lanes.Send(peer, data)
}

func (r *recorder) Recv(peer, n int) ([]byte, error) {
	r.note("wait for %d bytes from %d", n, peer)
	return r.lanes.Recv(peer, n)
}

func (r *recorder) Release(peer int) error {
	r.note("release to %d", peer)
	return r.lanes.Release(peer)
}

func (r *recorder) PutMulti(slot int, offset uint64, data []byte) error {
	r.note("post %d bytes at %d of slot %d", len(data), offset, slot)
	return r.lanes.PutMulti(slot, offset, data)
}

func (r *recorder) Board(owner, slot int) ([]byte, error) {
	r.note("take slot %d of %d", slot, owner)
	return r.lanes.Board(owner, slot)
}

func (r *recorder) PullReduce(dst []byte, offset uint64, op transport.RedOp, t kernels.Type) error {
	r.note("pull %d bytes at %d of all", len(dst), offset)
	return r.lanes.PullReduce(dst, offset, op, t)
}

func (r *recorder) GiveShort(peer int, data []byte) {
	r.note("put short of %d bytes to %d", len(data), peer)
	r.lanes.GiveShort(peer, data)
}

func (r *recorder) CountStage(peer, n int) {
	r.note("put on stage %d bytes for %d", n, peer)
	r.lanes.CountStage(peer, n)
}

// expected is what a recorder should write down for a schedule.
func expected(s *plan.Schedule) []string {
	r := &recorder{}
	size := s.Shape.ElemBytes
	for _, st := range s.Steps {
		switch st.Kind {
		case plan.Put:
			r.note("put %d bytes to %d", st.Srcs[0].Len()*size, st.Peer)
		case plan.Wait:
			r.note("wait for %d bytes from %d", st.Elems*size, st.Peer)
		case plan.Release:
			r.note("release to %d", st.Peer)
		case plan.PutMulti:
			r.note("post %d bytes at %d of slot %d", st.Srcs[0].Len()*size, st.Dst.From%s.CellElems*size, st.Dst.From/s.CellElems)
		case plan.Copy:
			if src := st.Srcs[0]; src.Buf == plan.Board {
				r.note("take slot %d of %d", src.From/s.CellElems, src.Peer)
			}
		case plan.PullReduce:
			r.note("pull %d bytes at %d of all", st.Dst.Len()*size, st.Srcs[0].From*size)
		}
	}
	return r.done
}

// algorithmCounts are enough for several segments and for shares of nothing.
func algorithmCounts(n int) []int { return []int{0, 1, n - 1, n, n + 1, 97, 40_000} }

// runAlgorithms runs all collectives on a communicator that was told which
// algorithms to use, with every result checked, and proves what ran: the lanes
// saw what the schedules say, and the verifier accepts those schedules.
func runAlgorithms(c *comm.Communicator, seed uint64) error {
	ctx := context.Background()
	r, err := extension(c)
	if err != nil {
		return err
	}
	e := r.e
	rec := &recorder{lanes: e}
	r.x.lanes = rec
	for i, k := range []exactCase{
		numberCase(genBits[int32]), typeCase(genBits[affine], byOperator("affine maps", affine.then)),
		numberCase(genBits[uint8]), numberCase(genBits[int64]),
	} {
		for j, count := range algorithmCounts(c.Size()) {
			if count > 2000 && (i > 1 || raceEnabled && i > 0) {
				continue
			}
			if err := k.run(ctx, c, count, seed+uint64(10*i+j), blocking); err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
		}
	}
	// One call of each kind, traced.
	n := c.Size()
	src, dst := make([]int32, 7*n*n), make([]int32, 7*n*n)
	for _, call := range []struct {
		k comm.Collective
		f func() error
	}{
		{comm.OpAllReduce, func() error { return AllReduce(ctx, c, dst, src, kernels.Sum) }},
		{comm.OpReduce, func() error { return Reduce(ctx, c, dst, src, kernels.Sum, n-1) }},
		{comm.OpBroadcast, func() error { return Broadcast(ctx, c, dst, n-1) }},
		{comm.OpAllGather, func() error { return AllGather(ctx, c, dst, src[:7*n]) }},
		{comm.OpAllToAll, func() error { return AllToAll(ctx, c, dst, src) }},
		{comm.OpReduceScatterBlock, func() error { return ReduceScatterBlock(ctx, c, dst[:7*n], src, kernels.Sum) }},
		{comm.OpGather, func() error { return Gather(ctx, c, dst, src[:7*n], n-1) }},
		{comm.OpScatter, func() error { return Scatter(ctx, c, dst[:7*n], src, n-1) }},
		{comm.OpScan, func() error { return Scan(ctx, c, dst, src, kernels.Sum) }},
		{comm.OpExscan, func() error { return Exscan(ctx, c, dst, src, kernels.Sum) }},
		{comm.OpBarrier, func() error { return Barrier(ctx, c) }},
	} {
		before := len(r.schedules)
		rec.done = nil
		if err := call.f(); err != nil {
			return err
		}
		var ran *plan.Schedule
		for key, s := range r.schedules {
			if key.call.Collective == call.k && (len(r.schedules) == before || s.Shape.Count == key.count) && matches(rec.done, s) {
				ran = s
			}
		}
		if ran == nil {
			return fmt.Errorf("%v: no schedule says what was done: %v", call.k, rec.done)
		}
		// The other ranks' schedules are a function of the same shape.
		all := make([]*plan.Schedule, n)
		for p := range all {
			if p == c.Rank() {
				all[p] = ran
			} else if all[p], err = plan.Build(ran.Algorithm, ran.Shape, p); err != nil {
				return err
			}
		}
		if err := plan.Verify(all); err != nil {
			return fmt.Errorf("%v by %s: %w", call.k, ran.Algorithm, err)
		}
	}
	r.x.lanes = e
	return nil
}

func matches(done []string, s *plan.Schedule) bool {
	want := expected(s)
	if len(want) != len(done) {
		return false
	}
	for i := range want {
		if want[i] != done[i] {
			return false
		}
	}
	return true
}

func TestAlgorithmsLocal(t *testing.T) {
	seed := testSeed(t)
	for n := 1; n <= 9; n++ {
		if raceEnabled && n > 3 {
			break
		}
		for _, spec := range specs() {
			t.Run(fmt.Sprintf("ranks=%d/%s", n, spec), func(t *testing.T) {
				cs := local(t, n, comm.WithAlgorithm(spec))
				require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error { return runAlgorithms(c, seed) })...))
			})
		}
	}
}

// algorithmsProgram is a rank of the same under mpirun.
func algorithmsProgram() error {
	c, err := comm.Init(context.Background(), comm.WithTimeout(time.Minute))
	if err != nil {
		return err
	}
	if err := runAlgorithms(c, 7); err != nil {
		c.Abort(err)
		c.Close()
		return err
	}
	return c.Close()
}

func TestAlgorithmsMpirun(t *testing.T) {
	ranks := []int{3, 4}
	if raceEnabled {
		ranks = ranks[:1]
	}
	// The race detector does not see what processes share, and what each does by itself
	// with every algorithm is in TestAlgorithmsLocal.
	for _, spec := range sampled(specs(), 1) {
		for _, n := range ranks {
			t.Run(fmt.Sprintf("ranks=%d/%s", n, spec), func(t *testing.T) {
				ranktest.Mpirun(t, n, "algorithms", nil, "WEFT_ALGO="+spec).Succeed(t, time.Minute)
			})
		}
	}
}

// TestSameBits: the order of a reduction is fixed, so floating-point results
// have the same bits on all ranks, and again in another run.
func TestSameBits(t *testing.T) {
	seed := testSeed(t)
	for _, algorithm := range plan.Algorithms(plan.AllReduce) {
		for n := 2; n <= 7; n++ {
			t.Run(fmt.Sprintf("%s/ranks=%d", algorithm, n), func(t *testing.T) {
				var sums []uint64
				for range 2 {
					cs := local(t, n, comm.WithAlgorithm("allreduce:"+algorithm))
					hashes := make([]uint64, n)
					require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
						rng := rand.New(rand.NewPCG(seed, uint64(c.Rank())))
						x := make([]float32, 30_011)
						for i := range x {
							x[i] = float32(rng.NormFloat64())
						}
						if err := AllReduce(context.Background(), c, x, x, kernels.Sum); err != nil {
							return err
						}
						h := fnv.New64a()
						binary.Write(h, binary.LittleEndian, x)
						hashes[c.Rank()] = h.Sum64()
						return nil
					})...))
					sums = append(sums, hashes...)
				}
				for _, sum := range sums {
					require.Equal(t, sums[0], sum)
				}
			})
		}
	}
}

// extension returns the runner of a communicator, which it may change before
// the next call.
func extension(c *comm.Communicator) (*runner, error) {
	if err := Barrier(context.Background(), c); err != nil { // so that there is one
		return nil, err
	}
	e, err := c.Begin(context.Background(), comm.Call{Collective: comm.OpBarrier})
	if err != nil {
		return nil, err
	}
	return e.Extension.(*runner), c.End(nil)
}

// TestWindows: calls that are cut into several schedules, with and without
// a choice of algorithms.
func TestWindows(t *testing.T) {
	seed := testSeed(t)
	for _, n := range []int{2, 3, 5, 8} {
		if raceEnabled && n != 3 {
			continue
		}
		for _, spec := range append(specs(), "") {
			t.Run(fmt.Sprintf("ranks=%d/%s", n, spec), func(t *testing.T) {
				cs := local(t, n, comm.WithAlgorithm(spec))
				require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
					r, err := extension(c)
					if err != nil {
						return err
					}
					r.windowMessages = n // one message a window
					k, f := numberCase(genBits[int16]), typeCase(genBits[affine], byOperator("affine maps", affine.then))
					message := r.messageBytes / 4
					windows, set := 10, allForms
					if raceEnabled && spec != "" { // forms don't know by which algorithm
						windows, set = 5, blocking
					}
					return first(
						k.run(context.Background(), c, windows*message/n+1, seed, set),
						f.run(context.Background(), c, 2*message+1, seed, blocking))
				})...))
			})
		}
	}
}

// TestLargestWindows: no schedule is too long, with any algorithm.
func TestLargestWindows(t *testing.T) {
	for _, n := range []int{2, 3, 16, 64, 128} {
		layout := progress.DefaultLayout(n)
		r := &runner{windowMessages: windowMessages, ranks: n, messageBytes: layout.MessageBytes()}
		for _, k := range planned {
			for _, name := range plan.Algorithms(k) {
				shape := plan.Shape{Collective: k, Ranks: n, ElemBytes: 8, MessageBytes: layout.MessageBytes(), Cells: layout.Cells}
				if k != plan.Barrier {
					shape.Count = r.windowElems(k, 8)
				}
				_, err := plan.Build(name, shape, n/2)
				require.NoError(t, err)
			}
		}
	}
}

// TestChoice: exclusions leave what is left, and reductions keep rank order as
// long as there is a way.
func TestChoice(t *testing.T) {
	for _, tt := range []struct {
		spec string
		want []string // one of these
	}{
		{"", []string{shortName, stagedName}},
		{"^oneshot", []string{"twoshot"}},
		{"^oneshot,twoshot", []string{"ring", "doubling", "halving", "tree", "doubletree", "multimem"}},
		{"allreduce:^oneshot,twoshot", []string{"ring", "doubling", "halving", "tree", "doubletree", "multimem"}},
		{"allreduce:ring", []string{"ring"}},
		{"bruck", []string{"oneshot", "twoshot"}},
		{"bruck;allreduce:tree", []string{"tree"}},
	} {
		c := local(t, 4, comm.WithAlgorithm(tt.spec))[0]
		for _, count := range []int{1, 1000, 1 << 20} {
			got, err := Algorithm(c, comm.Call{Collective: comm.OpAllReduce, Count: count, Type: kernels.TypeFloat32})
			require.NoError(t, err)
			require.Contains(t, tt.want, got, "%q, %d", tt.spec, count)
		}
	}
	c := local(t, 2)[0]
	for _, call := range []comm.Call{
		{}, {Collective: comm.OpSplit}, {Collective: comm.OpAllReduce, Count: 1}, {Collective: comm.OpAllReduce, Count: -1, Type: kernels.TypeInt8},
		{Collective: comm.OpBroadcast, Type: kernels.TypeInt8, Root: 2}, {Collective: comm.OpAllToAll, Type: kernels.TypeInt64, Count: math.MaxInt},
	} {
		_, err := Algorithm(c, call)
		require.Error(t, err, "%v", call)
	}
}

// TestWindowCheck: schedules that mix blocks can't be cut.
func TestWindowCheck(t *testing.T) {
	w := window{on: true, count: 4, stride: 10}
	across := &plan.Schedule{Algorithm: "x", Steps: []plan.Step{{Kind: plan.Copy, Dst: plan.Range{Buf: plan.Recv, From: 2, To: 6}, Srcs: []plan.Range{{Buf: plan.Scratch, To: 4}}}}}
	require.ErrorIs(t, w.check(across), transport.ErrUnsupported)
	across.Steps[0].Dst = plan.Range{Buf: plan.Recv, From: 4, To: 8}
	require.NoError(t, w.check(across))
	require.Equal(t, 10+1, w.place(5))
}

// TestKeptSchedules: many shapes don't fill the memory.
func TestKeptSchedules(t *testing.T) {
	ctx := context.Background()
	cs := local(t, 2, comm.WithAlgorithm("oneshot,twoshot")) // else there are none
	require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
		x := make([]uint8, 10_000)
		for n := range len(x) {
			if err := AllReduce(ctx, c, x[:n], x[:n], kernels.Max); err != nil {
				return err
			}
		}
		r, err := extension(c)
		if err != nil {
			return err
		}
		total := 0
		for _, s := range r.schedules {
			total += len(s.Steps)
		}
		if total > maxSteps || total != r.steps {
			return fmt.Errorf("%d steps kept, %d counted", total, r.steps)
		}
		return nil
	})...))
}

var _ lanes = (*progress.Engine)(nil)
