package collectives

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// TestPrefixFunc: the function is what Scan and Exscan reduce by.
func TestPrefixFunc(t *testing.T) {
	ctx := context.Background()
	type pair struct{ a, b int32 }
	// x ↦ a·x + b, one after the other: associative, not commutative.
	after := func(acc, x []pair) {
		for i := range acc {
			acc[i] = pair{x[i].a * acc[i].a, x[i].a*acc[i].b + x[i].b}
		}
	}
	for n := 1; n <= 5; n++ {
		cs := local(t, n)
		require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
			in := func(r int) pair { return pair{int32(2*r + 3), int32(r + 1)} }
			want := []pair{in(0)}
			for r := 1; r <= c.Rank(); r++ {
				acc := []pair{want[r-1]}
				after(acc, []pair{in(r)})
				want = append(want, acc[0])
			}
			src, dst := []pair{in(c.Rank())}, make([]pair, 1)
			if err := ScanFunc(ctx, c, dst, src, after); err != nil {
				return err
			}
			if got := dst[0]; got != want[c.Rank()] {
				return fmt.Errorf("Scan, rank %d of %d: %v, want %v", c.Rank(), n, got, want[c.Rank()])
			}
			if err := ExscanFunc(ctx, c, dst, src, after); err != nil {
				return err
			}
			if got := dst[0]; c.Rank() > 0 && got != want[c.Rank()-1] {
				return fmt.Errorf("Exscan, rank %d of %d: %v, want %v", c.Rank(), n, got, want[c.Rank()-1])
			}
			return nil
		})...))
	}
}

// TestFuncEnds: once the communicator has ended the function is not called again, though
// all that it would reduce is there.
func TestFuncEnds(t *testing.T) {
	const n = 3
	for name, opts := range map[string][]comm.Option{"pointer": nil, "fabric": {comm.WithTransport("fabric:fast")}, "ring": {comm.WithAlgorithm("ring")}} {
		for form, call := range map[string]func(c *comm.Communicator, dst, src []int32, f func(acc, x []int32)) error{
			"AllReduce": func(c *comm.Communicator, dst, src []int32, f func(acc, x []int32)) error {
				return AllReduceFunc(context.Background(), c, dst, src, f)
			},
			"ReduceScatter": func(c *comm.Communicator, dst, src []int32, f func(acc, x []int32)) error {
				size := len(src) / n
				return ReduceScatterFunc(context.Background(), c, dst[:size], src, []int{size, size, size}, f)
			},
		} {
			for _, count := range []int{n, n << 16} {
				t.Run(fmt.Sprint(name, " ", form, " ", count), func(t *testing.T) {
					cs := local(t, n, opts...)
					errs := each(cs, func(c *comm.Communicator) error {
						calls := 0
						err := call(c, make([]int32, count), make([]int32, count), func(acc, x []int32) {
							if calls++; c.Rank() == 1 {
								c.Abort(errors.New("enough"))
							}
						})
						if c.Rank() == 1 && calls != 1 {
							return fmt.Errorf("%d calls, then %w", calls, err)
						}
						return err
					})
					require.ErrorIs(t, errs[1], comm.ErrAborted)
					require.ErrorContains(t, errs[1], fmt.Sprintf("weft: rank 1: %s #1", form))
				})
			}
		}
	}
}

// TestFuncAlgorithms: functions are called in rank order, whatever algorithms are
// asked for.
func TestFuncAlgorithms(t *testing.T) {
	ctx := context.Background()
	last := func(acc, x []int32) { copy(acc, x) } // associative, not commutative
	for _, spec := range metaSpecs() {
		for n := 2; n <= 5; n++ {
			cs := local(t, n, comm.WithAlgorithm(spec))
			require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
				me := int32(c.Rank())
				src, dst := make([]int32, 2*n), make([]int32, 2*n)
				for i := range src {
					src[i] = me
				}
				counts := make([]int, n)
				counts[0] = 2 * n
				for _, k := range []struct {
					name string
					call func() error
					want int32
				}{
					{"AllReduce", func() error { return AllReduceFunc(ctx, c, dst, src, last) }, int32(n - 1)},
					{"Reduce", func() error { return ReduceFunc(ctx, c, dst, src, last, c.Size()-1) }, int32(n - 1)},
					{"ReduceScatterBlock", func() error { return ReduceScatterBlockFunc(ctx, c, dst[:2], src, last) }, int32(n - 1)},
					{"ReduceScatter", func() error { return ReduceScatterFunc(ctx, c, dst[:counts[me]], src, counts, last) }, int32(n - 1)},
					{"Scan", func() error { return ScanFunc(ctx, c, dst, src, last) }, me},
					{"Exscan", func() error { return ExscanFunc(ctx, c, dst, src, last) }, me - 1},
				} {
					if err := k.call(); err != nil {
						return err
					}
					if got := dst[0]; got != k.want && me > 0 {
						return fmt.Errorf("%s on rank %d of %d, %q: %d, want %d", k.name, me, n, spec, got, k.want)
					}
				}
				return nil
			})...))
		}
	}
}

// TestPanickingOperator: whatever the form, the communicator ends for all ranks
// when a function doesn't return; a panic reaches whoever called.
func TestPanickingOperator(t *testing.T) {
	ctx := context.Background()
	boom := errors.New("boom")
	fine := func(acc, x []int32) {}
	panics := func(acc, x []int32) { panic(boom) }
	exits := func(acc, x []int32) { runtime.Goexit() }
	s := func() []int32 { return make([]int32, 6) }
	type operator = func(acc, x []int32)
	forms := []struct {
		name    string
		started bool
		call    func(c *comm.Communicator, f operator) error
	}{
		{"AllReduce", false, func(c *comm.Communicator, f operator) error { return AllReduceFunc(ctx, c, s(), s(), f) }},
		{"ReduceScatterBlock", false, func(c *comm.Communicator, f operator) error {
			return ReduceScatterBlockFunc(ctx, c, s()[:6/c.Size()], s(), f)
		}},
		{"ReduceScatter", false, func(c *comm.Communicator, f operator) error {
			counts := make([]int, c.Size())
			counts[c.Size()-1] = 1
			return ReduceScatterFunc(ctx, c, s()[:counts[c.Rank()]], s()[:1], counts, f)
		}},
		{"Reduce", false, func(c *comm.Communicator, f operator) error {
			return ReduceFunc(ctx, c, s(), s(), f, c.Size()-1)
		}},
		{"Scan", false, func(c *comm.Communicator, f operator) error { return ScanFunc(ctx, c, s(), s(), f) }},
		{"persistent", false, func(c *comm.Communicator, f operator) error {
			p, err := NewAllReduceFunc(c, s(), s(), f)
			if err != nil {
				return err
			}
			return p.Run(ctx)
		}},
		{"group", false, func(c *comm.Communicator, f operator) error {
			return Group(ctx, c, func(g *GroupCalls) error {
				AddAllReduce(g, s(), s(), kernels.Sum)
				AddAllReduceFunc(g, s(), s(), f)
				return nil
			})
		}},
		{"started", true, func(c *comm.Communicator, f operator) error {
			first := StartAllReduceFunc(ctx, c, s(), s(), f)
			second := StartBarrier(ctx, c)
			err := first.Wait(ctx)
			if next := second.Wait(ctx); !errors.Is(next, comm.ErrAborted) {
				return fmt.Errorf("the next call gave %w", next)
			}
			return err
		}},
		{"started persistent", true, func(c *comm.Communicator, f operator) error {
			p, err := NewAllReduceFunc(c, s(), s(), f)
			if err != nil {
				return err
			}
			return p.Start(ctx).Wait(ctx)
		}},
	}
	for _, tt := range forms {
		for _, n := range []int{2, 3} {
			for _, exit := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/ranks=%d/exit=%v", tt.name, n, exit), func(t *testing.T) {
					bad := panics
					if exit {
						bad = exits
					}
					odd := n - 1 // the rank that combines, in all of these
					cs := local(t, n)
					begin := time.Now()
					errs := make([]error, n)
					panicked := make([]any, n)
					returned := make([]bool, n)
					each(cs, func(c *comm.Communicator) error {
						r := c.Rank()
						ended := make(chan struct{})
						go func() { // of its own, as it may end
							defer close(ended)
							defer func() { panicked[r] = recover() }()
							f := fine
							if r == odd {
								f = bad
							}
							if errs[r] = tt.call(c, f); errs[r] == nil {
								errs[r] = Barrier(ctx, c)
							}
							returned[r] = true
						}()
						<-ended
						return nil
					})
					require.Less(t, time.Since(begin), 10*time.Second)
					why := "the operator panicked: boom"
					if exit {
						why = "the operator ended its goroutine"
					}
					for r := range n {
						if r == odd && !tt.started {
							require.False(t, returned[r])
							if exit {
								require.Nil(t, panicked[r])
							} else {
								require.Equal(t, boom, panicked[r])
							}
							errs[r] = cs[r].AsyncErr()
						} else {
							require.True(t, returned[r])
						}
						require.ErrorIs(t, errs[r], comm.ErrAborted)
						require.ErrorContains(t, errs[r], fmt.Sprintf("failed on rank %d", odd))
						require.ErrorContains(t, errs[r], why)
					}
					var p *PanicError
					require.ErrorAs(t, errs[odd], &p)
					require.Contains(t, string(p.Stack), "TestPanickingOperator")
					require.Equal(t, !exit, errors.Is(errs[odd], boom))
					for r, err := range each(cs, func(c *comm.Communicator) error { return Barrier(ctx, c) }) {
						require.ErrorIs(t, err, comm.ErrAborted, "rank %d", r)
					}
					begin = time.Now()
					require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error { return c.Close() })...))
					require.Less(t, time.Since(begin), 10*time.Second)
				})
			}
		}
	}
}
