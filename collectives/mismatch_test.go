package collectives

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// A testCall is a call in all its forms: either an operation of this package, or
// something else that all ranks call.
type testCall struct {
	op    func(c *comm.Communicator) operation
	other func(ctx context.Context, c *comm.Communicator) error
	name  string // of other, as errors have it
}

// text is what errors say of call number seq, or of the first one of a group.
func (k testCall) text(c *comm.Communicator, seq int, group bool) string {
	if k.op == nil {
		return fmt.Sprintf("%s #%d", k.name, seq)
	}
	o := k.op(c)
	if group {
		return fmt.Sprintf("Group #%d call 1: %v", seq, o.call)
	}
	kind := o.call.Collective.String()
	return strings.Replace(o.call.String(), kind, fmt.Sprintf("%s #%d", kind, seq), 1)
}

// callForms are the ways to make several calls, one after the other.
var callForms = []struct {
	name string
	make func(ctx context.Context, c *comm.Communicator, calls []testCall) error
}{
	{"blocking", func(ctx context.Context, c *comm.Communicator, calls []testCall) error {
		for _, k := range calls {
			if err := k.block(ctx, c, func(o operation) error { return o.run(ctx) }); err != nil {
				return err
			}
		}
		return nil
	}},
	{"started", func(ctx context.Context, c *comm.Communicator, calls []testCall) error {
		var all []*Request
		for _, k := range calls {
			if k.op == nil { // behind what was started
				return errors.Join(k.other(ctx, c), WaitAll(ctx, all...))
			}
			all = append(all, start(ctx, k.op(c)))
		}
		return WaitAll(ctx, all...)
	}},
	{"persistent", func(ctx context.Context, c *comm.Communicator, calls []testCall) error {
		for _, k := range calls {
			if err := k.block(ctx, c, func(o operation) error {
				p, err := newPersistent(o)
				if err != nil {
					return err
				}
				return p.Run(ctx)
			}); err != nil {
				return err
			}
		}
		return nil
	}},
	{"started persistent", func(ctx context.Context, c *comm.Communicator, calls []testCall) error {
		for _, k := range calls {
			if err := k.block(ctx, c, func(o operation) error {
				p, err := newPersistent(o)
				if err != nil {
					return err
				}
				return p.Start(ctx).Wait(ctx)
			}); err != nil {
				return err
			}
		}
		return nil
	}},
	{"group", func(ctx context.Context, c *comm.Communicator, calls []testCall) error {
		return inGroups(ctx, c, calls, func(fn func(g *GroupCalls) error) error { return Group(ctx, c, fn) })
	}},
	{"started group", func(ctx context.Context, c *comm.Communicator, calls []testCall) error {
		return inGroups(ctx, c, calls, func(fn func(g *GroupCalls) error) error { return StartGroup(ctx, c, fn).Wait(ctx) })
	}},
}

// inGroups makes calls in groups as large as possible.
func inGroups(ctx context.Context, c *comm.Communicator, calls []testCall, make func(fn func(g *GroupCalls) error) error) error {
	for len(calls) > 0 {
		var err error
		if calls[0].op == nil {
			err = calls[0].other(ctx, c)
			calls = calls[1:]
		} else {
			err = make(func(g *GroupCalls) error {
				for len(calls) > 0 && calls[0].op != nil {
					g.add(calls[0].op(c))
					calls = calls[1:]
				}
				return nil
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (k testCall) block(ctx context.Context, c *comm.Communicator, run func(o operation) error) error {
	if k.op == nil {
		return k.other(ctx, c)
	}
	return run(k.op(c))
}

// s32 is a slice, in bytes.
func s32(n int) []byte { return kernels.Bytes(make([]int32, n)) }

var int32s = numberOf[int32]()

func reduced(e element, count int, by operator) testCall {
	return testCall{op: func(c *comm.Communicator) operation {
		return allReduce(c, e, make([]byte, count*e.size), make([]byte, count*e.size), by)
	}}
}

func summed(count int) testCall { return reduced(int32s, count, operator{op: kernels.Sum}) }

func broadcasted(e element, count, root int) testCall {
	return testCall{op: func(c *comm.Communicator) operation { return broadcast(c, e, make([]byte, count*e.size), root) }}
}

func reducedTo(count, root int, op kernels.Op) testCall {
	return testCall{op: func(c *comm.Communicator) operation {
		return reduce(c, int32s, s32(count), s32(count), operator{op: op}, root)
	}}
}

func gathered(count, root int) testCall {
	return testCall{op: func(c *comm.Communicator) operation {
		return gather(c, int32s, s32(count*c.Size()), s32(count), root)
	}}
}

func scattered(count, root int) testCall {
	return testCall{op: func(c *comm.Communicator) operation {
		return scatter(c, int32s, s32(count), s32(count*c.Size()), root)
	}}
}

func allGathered(count int) testCall {
	return testCall{op: func(c *comm.Communicator) operation { return allGather(c, int32s, s32(count*c.Size()), s32(count)) }}
}

func exchanged(count int) testCall {
	return testCall{op: func(c *comm.Communicator) operation {
		return allToAll(c, int32s, s32(count*c.Size()), s32(count*c.Size()))
	}}
}

func blockReduced(count int) testCall {
	return testCall{op: func(c *comm.Communicator) operation {
		return reduceScatterBlock(c, int32s, s32(count), s32(count*c.Size()), operator{op: kernels.Sum})
	}}
}

func scanned(count int, k comm.Collective, by operator) testCall {
	return testCall{op: func(c *comm.Communicator) operation {
		f := scan
		if k == comm.OpExscan {
			f = exscan
		}
		return f(c, int32s, s32(count), s32(count), by)
	}}
}

// filled is counts for n ranks, of which one is other.
func filled(n, count, odd, other int) []int {
	counts := make([]int, n)
	for i := range counts {
		counts[i] = count
	}
	counts[odd%n] = other
	return counts
}

func sum(counts []int) int {
	total := 0
	for _, n := range counts {
		total += n
	}
	return total
}

// gatheredV has blocks of count elements but for one of the given rank.
func gatheredV(count, odd, other int) testCall {
	return testCall{op: func(c *comm.Communicator) operation {
		counts := filled(c.Size(), count, odd, other)
		return allGatherV(c, int32s, s32(sum(counts)), counts, s32(counts[c.Rank()]))
	}}
}

func reducedV(count, odd, other int) testCall {
	return testCall{op: func(c *comm.Communicator) operation {
		counts := filled(c.Size(), count, odd, other)
		return reduceScatter(c, int32s, s32(counts[c.Rank()]), s32(sum(counts)), counts, operator{op: kernels.Sum})
	}}
}

// exchangedV sends and expects count elements, but for what goes to, and is
// expected of, rank p.
func exchangedV(count, p, out, in int) testCall {
	return testCall{op: func(c *comm.Communicator) operation {
		to, from := filled(c.Size(), count, p, out), filled(c.Size(), count, p, in)
		if p%c.Size() == c.Rank() {
			to, from = filled(c.Size(), count, 0, count), filled(c.Size(), count, 0, count)
		}
		return allToAllV(c, int32s, s32(sum(from)), from, s32(sum(to)), to)
	}}
}

// rootedV is a GatherV or ScatterV to rank root, which takes all blocks for ones
// of count elements; this rank's has own.
func rootedV(k comm.Collective, count, own, root int) testCall {
	return testCall{op: func(c *comm.Communicator) operation {
		own := own
		if c.Rank() == root {
			own = count
		}
		counts := filled(c.Size(), count, 0, count)
		if k == comm.OpGatherV {
			return gatherV(c, int32s, s32(sum(counts)), counts, s32(own), root)
		}
		return scatterV(c, int32s, s32(own), s32(sum(counts)), counts, root)
	}}
}

var (
	barriered = testCall{op: barrier}
	splitted  = testCall{name: "Split", other: func(ctx context.Context, c *comm.Communicator) error {
		part, err := c.Split(ctx, 0, 0)
		return errors.Join(err, closed(part))
	}}
	dupped = testCall{name: "Dup", other: func(ctx context.Context, c *comm.Communicator) error {
		part, err := c.Dup(ctx)
		return errors.Join(err, closed(part))
	}}
)

func allocated(count int) testCall {
	return testCall{name: "Alloc", other: func(ctx context.Context, c *comm.Communicator) error {
		_, err := comm.Alloc[int32](ctx, c, count)
		return err
	}}
}

func closed(c *comm.Communicator) error {
	if c == nil {
		return nil
	}
	return c.Close()
}

// A mismatchCase is two lists of calls of which the first differ, as far as
// one rank makes one and the others the other.
type mismatchCase struct {
	name string
	// calls returns what one rank calls, and what the others, of n.
	calls func(n, odd int) (one, others []testCall)
	// pairs: the calls are described alike, and the note tells them apart.
	pairs string
	later bool // it isn't the first calls that differ
}

func first2(one, others testCall) func(n, odd int) (a, b []testCall) {
	return func(int, int) (a, b []testCall) { return []testCall{one}, []testCall{others} }
}

func mismatchCases() []mismatchCase {
	type eight [2]int32
	type sixteen struct {
		A int64
		B int32 // and padding
	}
	eights, sixteens := elementOf[eight](), elementOf[sixteen]()
	add := byFunc(func(acc, x []int32) {
		for i := range acc {
			acc[i] += x[i]
		}
	})
	const large = 100_000 // elements: several messages
	return []mismatchCase{
		{name: "count", calls: first2(summed(11), summed(10))},
		{name: "count, large", calls: first2(summed(large+1), summed(large))},
		{name: "small and large", calls: first2(summed(1), summed(2*large))},
		{name: "large and small", calls: first2(summed(2*large), summed(1))},
		{name: "nothing and something", calls: first2(summed(0), summed(5))},
		{name: "something and nothing", calls: first2(summed(5), summed(0))},
		{name: "count of AllGather", calls: first2(allGathered(3), allGathered(4))},
		{name: "no AllGather", calls: first2(allGathered(0), allGathered(4))},
		{name: "count of AllToAll", calls: first2(exchanged(3), exchanged(2))},
		{name: "no AllToAll", calls: first2(exchanged(2), exchanged(0))},
		{name: "count of ReduceScatterBlock", calls: first2(blockReduced(3), blockReduced(2))},
		{name: "no ReduceScatterBlock", calls: first2(blockReduced(0), blockReduced(2))},
		{name: "count of Scan", calls: first2(scanned(3, comm.OpScan, operator{}), scanned(2, comm.OpScan, operator{}))},
		{name: "count of Exscan", calls: first2(scanned(0, comm.OpExscan, operator{}), scanned(2, comm.OpExscan, operator{}))},
		{name: "Scan and Exscan", calls: first2(scanned(2, comm.OpScan, operator{}), scanned(2, comm.OpExscan, operator{}))},
		{name: "count of Broadcast", calls: first2(broadcasted(int32s, 10, 0), broadcasted(int32s, 9, 0))},
		{name: "count of Broadcast, large", calls: first2(broadcasted(int32s, large, 1), broadcasted(int32s, 3*large, 1))},
		{name: "no Broadcast", calls: first2(broadcasted(int32s, 0, 1), broadcasted(int32s, 9, 1))},
		{name: "a Broadcast", calls: first2(broadcasted(int32s, 9, 0), broadcasted(int32s, 0, 0))},
		{name: "count of Reduce", calls: first2(reducedTo(10, 0, kernels.Sum), reducedTo(9, 0, kernels.Sum))},
		{name: "no Reduce", calls: first2(reducedTo(0, 1, kernels.Sum), reducedTo(9, 1, kernels.Sum))},
		{name: "count of Gather", calls: first2(gathered(3, 1), gathered(2, 1))},
		{name: "no Gather", calls: first2(gathered(0, 1), gathered(2, 1))},
		{name: "count of Scatter", calls: first2(scattered(3, 1), scattered(2, 1))},
		{name: "no Scatter", calls: first2(scattered(2, 0), scattered(0, 0))},

		{name: "type of the same size", calls: first2(reduced(numberOf[float32](), 10, operator{}), summed(10))},
		{name: "type, bytes of the same number", calls: first2(reduced(numberOf[int64](), 5, operator{}), summed(10))},
		{name: "struct and number", calls: first2(broadcasted(eights, 3, 0), broadcasted(numberOf[int64](), 3, 0))},
		{name: "structs", calls: first2(broadcasted(eights, 3, 0), broadcasted(sixteens, 3, 0))},
		{name: "structs, bytes of the same number", calls: first2(broadcasted(eights, 4, 1), broadcasted(sixteens, 2, 1))},

		{name: "operator", calls: first2(reduced(int32s, 10, operator{op: kernels.Max}), summed(10))},
		{name: "operator of Reduce", calls: first2(reducedTo(7, 0, kernels.BitAnd), reducedTo(7, 0, kernels.BitOr))},
		{name: "function and operator", calls: first2(reduced(int32s, 10, add), summed(10))},
		{name: "function and operator of Scan", calls: first2(scanned(2, comm.OpScan, add), scanned(2, comm.OpScan, operator{}))},

		{name: "root of Broadcast", calls: first2(broadcasted(int32s, 10, 1), broadcasted(int32s, 10, 0))},
		{name: "root of Reduce", calls: first2(reducedTo(10, 1, kernels.Sum), reducedTo(10, 0, kernels.Sum))},
		{name: "root of Gather", calls: first2(gathered(2, 0), gathered(2, 1))},
		{name: "root of Scatter", calls: first2(scattered(2, 0), scattered(2, 1))},
		{name: "root of GatherV", calls: first2(rootedV(comm.OpGatherV, 3, 3, 0), rootedV(comm.OpGatherV, 3, 3, 1))},
		{name: "root of ScatterV", calls: first2(rootedV(comm.OpScatterV, 3, 3, 0), rootedV(comm.OpScatterV, 3, 3, 1))},
		{name: "each its own root", calls: func(n, odd int) (a, b []testCall) {
			return []testCall{broadcasted(int32s, 4, odd)}, []testCall{broadcasted(int32s, 4, (odd+1)%n)}
		}},

		{name: "counts of AllGatherV", calls: first2(gatheredV(5, 0, 4), gatheredV(5, 0, 6))},
		{name: "counts of AllGatherV, of the same sum", calls: func(n, odd int) (a, b []testCall) {
			return []testCall{gatheredV(5, 0, 5)}, []testCall{{op: func(c *comm.Communicator) operation {
				counts := filled(n, 5, 0, 4)
				counts[1]++
				return allGatherV(c, int32s, s32(sum(counts)), counts, s32(counts[c.Rank()]))
			}}}
		}},
		{name: "AllGatherV and AllGather", calls: first2(gatheredV(5, 0, 5), allGathered(5))},
		{name: "nothing in AllGatherV", calls: first2(gatheredV(0, 0, 0), gatheredV(0, 1, 7))},
		{name: "something in AllGatherV", calls: first2(gatheredV(0, 0, 9), gatheredV(0, 0, 0))},
		{name: "counts of ReduceScatter", calls: first2(reducedV(5, 1, 4), reducedV(5, 1, 6))},
		{name: "counts of ReduceScatter, large", calls: first2(reducedV(large, 1, large+1), reducedV(large, 1, large+2))},
		{name: "nothing in ReduceScatter", calls: first2(reducedV(0, 0, 0), reducedV(0, 1, 7))},

		{name: "AllToAllV sends less", calls: func(n, odd int) (a, b []testCall) {
			return []testCall{exchangedV(5, odd+1, 3, 5)}, []testCall{exchangedV(5, odd, 5, 5)}
		}, pairs: "5 elements from rank"},
		{name: "AllToAllV sends more", calls: func(n, odd int) (a, b []testCall) {
			return []testCall{exchangedV(5, odd+1, 6, 5)}, []testCall{exchangedV(5, odd, 5, 5)}
		}, pairs: "5 elements from rank"},
		{name: "AllToAllV sends nothing", calls: func(n, odd int) (a, b []testCall) {
			return []testCall{exchangedV(5, odd+1, 0, 5)}, []testCall{exchangedV(5, odd, 5, 5)}
		}, pairs: "5 elements from rank"},
		{name: "AllToAllV expects nothing", calls: func(n, odd int) (a, b []testCall) {
			return []testCall{exchangedV(5, odd+1, 5, 0)}, []testCall{exchangedV(5, odd, 5, 5)}
		}, pairs: "0 elements from rank"},
		{name: "AllToAllV sends what is not expected", calls: func(n, odd int) (a, b []testCall) {
			return []testCall{exchangedV(0, odd+1, 5, 0)}, []testCall{exchangedV(0, odd, 0, 0)}
		}, pairs: "0 elements from rank"},
		{name: "AllToAllV expects what does not come", calls: func(n, odd int) (a, b []testCall) {
			return []testCall{exchangedV(0, odd+1, 0, 5)}, []testCall{exchangedV(0, odd, 0, 0)}
		}, pairs: "5 elements from rank"},
		{name: "AllToAllV, large", calls: func(n, odd int) (a, b []testCall) {
			return []testCall{exchangedV(5, odd+1, 2*large, 5)}, []testCall{exchangedV(5, odd, 5, large)}
		}, pairs: "100000 elements from rank"},
		{name: "AllToAllV, large, one more", calls: func(n, odd int) (a, b []testCall) {
			return []testCall{exchangedV(large, odd+1, large, large+1)}, []testCall{exchangedV(large, odd, large, large)}
		}, pairs: "100001 elements from rank"},
		{name: "GatherV", calls: first2(rootedV(comm.OpGatherV, 5, 4, 0), rootedV(comm.OpGatherV, 5, 5, 0)), pairs: "5 elements from rank"},
		{name: "GatherV of nothing", calls: first2(rootedV(comm.OpGatherV, 5, 0, 0), rootedV(comm.OpGatherV, 5, 5, 0)), pairs: "5 elements from rank"},
		{name: "GatherV of something", calls: first2(rootedV(comm.OpGatherV, 0, 3, 0), rootedV(comm.OpGatherV, 0, 0, 0)), pairs: "0 elements from rank"},
		{name: "GatherV, large", calls: first2(rootedV(comm.OpGatherV, large, 2*large, 0), rootedV(comm.OpGatherV, large, large, 0)), pairs: "100000 elements from rank"},
		{name: "ScatterV", calls: first2(rootedV(comm.OpScatterV, 5, 6, 0), rootedV(comm.OpScatterV, 5, 5, 0)), pairs: "6 elements from rank"},
		{name: "ScatterV of nothing", calls: first2(rootedV(comm.OpScatterV, 0, 6, 0), rootedV(comm.OpScatterV, 0, 0, 0)), pairs: "6 elements from rank"},
		{name: "ScatterV of something", calls: first2(rootedV(comm.OpScatterV, 5, 0, 0), rootedV(comm.OpScatterV, 5, 5, 0)), pairs: "0 elements from rank"},
		{name: "ScatterV, large", calls: first2(rootedV(comm.OpScatterV, large, 2*large, 0), rootedV(comm.OpScatterV, large, large, 0)), pairs: "200000 elements from rank"},

		{name: "Barrier and AllReduce", calls: first2(barriered, summed(10))},
		{name: "Broadcast and AllReduce", calls: first2(broadcasted(int32s, 10, 0), summed(10))},
		{name: "Broadcast and Barrier", calls: first2(broadcasted(int32s, 10, 0), barriered)},
		{name: "Reduce and Gather", calls: first2(reducedTo(4, 0, kernels.Sum), gathered(4, 0))},
		{name: "nothing, of different kinds", calls: first2(broadcasted(int32s, 0, 0), summed(0))},
		{name: "Split and Barrier", calls: first2(splitted, barriered)},
		{name: "AllReduce and Split", calls: first2(summed(10), splitted)},
		{name: "Split and Dup", calls: first2(splitted, dupped)},
		{name: "Dup and Broadcast", calls: first2(dupped, broadcasted(int32s, 10, 0))},
		{name: "Alloc and AllToAllV", calls: first2(allocated(4), exchangedV(5, 0, 5, 5))},
		{name: "Gather and Alloc", calls: first2(gathered(2, 0), allocated(4))},
		{name: "Alloc and Split", calls: first2(allocated(4), splitted)},
		{name: "count of Alloc", calls: first2(allocated(4), allocated(5))},
		{name: "nothing and Split", calls: first2(summed(0), splitted)},

		{name: "a call less", later: true, calls: func(int, int) (a, b []testCall) {
			return []testCall{summed(10), barriered}, []testCall{summed(10), summed(10), barriered}
		}},
		{name: "a Broadcast more", later: true, calls: func(int, int) (a, b []testCall) {
			return []testCall{broadcasted(int32s, 5, 0), broadcasted(int32s, 5, 0), barriered}, []testCall{broadcasted(int32s, 5, 0), barriered}
		}},
		{name: "nothing, long ago", later: true, calls: func(int, int) (a, b []testCall) {
			for range 40 {
				a, b = append(a, summed(0)), append(b, summed(0))
			}
			a[0] = reduced(numberOf[int8](), 0, operator{})
			return append(a, barriered), append(b, barriered)
		}},
		{name: "in another order", calls: func(int, int) (a, b []testCall) {
			return []testCall{summed(10), broadcasted(int32s, 5, 0)}, []testCall{broadcasted(int32s, 5, 0), summed(10)}
		}},
	}
}

// impossible: the odd rank can't differ if it is the root.
func (k mismatchCase) impossible(odd int) bool {
	return (strings.HasPrefix(k.name, "GatherV") || strings.HasPrefix(k.name, "ScatterV")) && odd == 0
}

var whoCalledWhat = regexp.MustCompile(`rank \d: .*; rank \d: `)

// mismatch makes a case's calls, after a barrier, and what comes next: a barrier,
// or Close. It says what is wrong with the errors that the ranks got, and how long
// that took.
func (k mismatchCase) mismatch(n, odd, form int, closes bool) (time.Duration, error) {
	ctx := context.Background()
	cs, err := comm.Local(n, comm.WithTimeout(20*time.Second))
	if err != nil {
		return 0, err
	}
	defer each(cs, func(c *comm.Communicator) error { return c.Close() })
	if err := errors.Join(each(cs, func(c *comm.Communicator) error { return Barrier(ctx, c) })...); err != nil {
		return 0, err
	}
	one, others := k.calls(n, odd)
	begin := time.Now()
	var made sync.WaitGroup
	made.Add(n)
	errs := each(cs, func(c *comm.Communicator) error {
		calls := others
		if c.Rank() == odd {
			calls = one
		}
		err := callForms[form].make(ctx, c, calls)
		made.Done()
		switch {
		case err != nil:
			return err
		case closes:
			// A rank may be gone before the others begin; nobody can tell it then.
			made.Wait()
			return c.Close()
		}
		return Barrier(ctx, c)
	})
	took := time.Since(begin)
	for r, err := range errs {
		if !errors.Is(err, comm.ErrMismatch) {
			return took, fmt.Errorf("rank %d: %w", r, errors.Join(err, errors.New("no mismatch")))
		}
		if !whoCalledWhat.MatchString(err.Error()) {
			return took, fmt.Errorf("rank %d: not who called what: %w", r, err)
		}
		group := strings.Contains(callForms[form].name, "group")
		if k.later || group && (one[0].op == nil || others[0].op == nil) {
			continue
		}
		if k.pairs != "" {
			if !strings.Contains(err.Error(), k.pairs) {
				return took, fmt.Errorf("rank %d: not %q: %w", r, k.pairs, err)
			}
			continue
		}
		found := strings.Contains(err.Error(), fmt.Sprintf("rank %d: %s", odd, one[0].text(cs[odd], 2, group)))
		some := false
		for p := range n {
			some = some || p != odd && strings.Contains(err.Error(), fmt.Sprintf("rank %d: %s", p, others[0].text(cs[p], 2, group)))
		}
		if strings.Contains(err.Error(), ": in another call; ") && took > time.Second {
			continue // on a machine this busy the peer's answer may come too late
		}
		if !found || !some {
			return took, fmt.Errorf("rank %d: not %s and %s: %w", r, one[0].text(cs[odd], 2, group), others[0].text(cs[(odd+1)%n], 2, group), err)
		}
	}
	return took, nil
}

// testLong has the tests with many cases do all of them.
var testLong = os.Getenv("WEFT_TEST_LONG") != ""

// TestMismatch: every way in which one rank may call something else than the
// others, each rank in turn. All get an error that says who called what.
func TestMismatch(t *testing.T) {
	const hard = 15 * time.Second // this is about 2 seconds, but for a machine that is busy
	var g errgroup.Group
	g.SetLimit(24) // most of it is waiting
	var mu sync.Mutex
	var slowest time.Duration
	var slowestName string
	var failed []string
	runs := 0
	for i, k := range mismatchCases() {
		for n := 2; n <= 5; n++ {
			if raceEnabled && n != 3 {
				continue
			}
			for odd := range n {
				for form := range callForms {
					for _, closes := range []bool{false, true} {
						// Each rank of each size in the blocking form, one in the others.
						short := closes == ((i+n+odd+form)%2 == 0) && (form == 0 || n == 2+(i+form)%4 && odd == i%n)
						if k.impossible(odd) || !short && !testLong {
							continue
						}
						name := fmt.Sprintf("%s/ranks=%d/odd=%d/%s/close=%v", k.name, n, odd, callForms[form].name, closes)
						runs++
						g.Go(func() error {
							took, err := k.mismatch(n, odd, form, closes)
							mu.Lock()
							defer mu.Unlock()
							if took > slowest {
								slowest, slowestName = took, name
							}
							if err == nil && took > hard {
								err = fmt.Errorf("took %v", took)
							}
							if err != nil {
								failed = append(failed, fmt.Sprintf("%s: %v", name, err))
							}
							return nil
						})
					}
				}
			}
		}
	}
	require.NoError(t, g.Wait())
	t.Logf("%d runs; the slowest took %v: %s", runs, slowest, slowestName)
	if len(failed) > 0 {
		t.Fatalf("%d failed:\n%s", len(failed), strings.Join(failed[:min(len(failed), 40)], "\n"))
	}
}
