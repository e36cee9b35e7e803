package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weft-go/weft/collectives"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

const leastBytes = 8

// A caller makes the calls of one rank in one group. All ranks of a group, and all
// groups of a phase, draw the same calls.
type caller struct {
	c        *comm.Communicator
	draw     *rand.Rand
	most     int // elements of a block
	src, dst []int32
	calls    int
}

// newCaller returns a caller with memory for the blocks of all ranks.
func newCaller(c *comm.Communicator, seed, phase uint64, maxBytes int, src, dst []int32) *caller {
	return &caller{c: c, draw: rand.New(rand.NewPCG(seed, phase)), most: maxBytes / 4, src: src, dst: dst}
}

// kinds of calls.
const (
	allReduce = iota
	reduceScatter
	allGather
	allToAll
	broadcast
	reduce
	gather
	scatter
	scan
	barrier
	kinds
)

// value is element i of what a rank contributes to the current call.
func (c *caller) value(rank, i int) int32 { return int32(100*rank + i%13 + c.calls%17) }

// sum is the sum of the values of ranks 0 to n−1.
func (c *caller) sum(n, i int) int32 {
	return int32(100*(n-1)*n/2 + n*(i%13+c.calls%17))
}

// next makes a call and checks some of its result.
func (c *caller) next(ctx context.Context) error {
	kind, root := c.draw.IntN(kinds), c.draw.IntN(c.c.Size())
	least := float64(leastBytes / 4)
	n := int(least * math.Pow(float64(c.most)/least, c.draw.Float64()))
	err := c.call(ctx, kind, root, n)
	c.calls++
	if err != nil {
		return fmt.Errorf("call %d, kind %d of %d elements: %w", c.calls, kind, n, err)
	}
	return nil
}

func (c *caller) call(ctx context.Context, kind, root, n int) error {
	ranks, me := c.c.Size(), c.c.Rank()
	all := n * ranks
	src, dst := c.src[:n], c.dst[:n]
	// What is to be there, by element of dst.
	want := func(i int) int32 { return c.sum(ranks, i) }
	switch kind {
	case reduceScatter, allToAll:
		src = c.src[:all]
	case scatter:
		if me == root {
			src = c.src[:all]
		} else {
			src = nil
		}
	}
	for i := range src {
		src[i] = c.value(me, i)
	}
	var err error
	switch kind {
	case allReduce:
		err = collectives.AllReduce(ctx, c.c, dst, src, kernels.Sum)
	case reduceScatter:
		err = collectives.ReduceScatterBlock(ctx, c.c, dst, src, kernels.Sum)
		want = func(i int) int32 { return c.sum(ranks, me*n+i) }
	case allGather:
		dst = c.dst[:all]
		err = collectives.AllGather(ctx, c.c, dst, src)
		want = func(i int) int32 { return c.value(i/n, i%n) }
	case allToAll:
		dst = c.dst[:all]
		err = collectives.AllToAll(ctx, c.c, dst, src)
		want = func(i int) int32 { return c.value(i/n, me*n+i%n) }
	case broadcast:
		dst = src
		err = collectives.Broadcast(ctx, c.c, dst, root)
		want = func(i int) int32 { return c.value(root, i) }
	case reduce:
		if me != root {
			dst = nil
		}
		err = collectives.Reduce(ctx, c.c, dst, src, kernels.Sum, root)
	case gather:
		if dst = c.dst[:all]; me != root {
			dst = nil
		}
		err = collectives.Gather(ctx, c.c, dst, src, root)
		want = func(i int) int32 { return c.value(i/n, i%n) }
	case scatter:
		err = collectives.Scatter(ctx, c.c, dst, src, root)
		want = func(i int) int32 { return c.value(root, me*n+i) }
	case scan:
		err = collectives.Scan(ctx, c.c, dst, src, kernels.Sum)
		want = func(i int) int32 { return c.sum(me+1, i) }
	default:
		return collectives.Barrier(ctx, c.c)
	}
	if err != nil {
		return err
	}
	for i := 0; i < len(dst); i += 1 + len(dst)/16 {
		if dst[i] != want(i) {
			return fmt.Errorf("element %d is %d, must be %d", i, dst[i], want(i))
		}
	}
	return nil
}
