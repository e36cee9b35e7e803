// Command copyrate measures how fast two processes on two processors copy at once, which
// is what calls with much data can't be faster than, and sets beside it what calls take
// on symmetric memory. It wants two ranks on two processors:
//
//	go build -o bin/ ./cmd/weft ./bench/copyrate
//	bin/weft run -n 2 -- bin/copyrate
//
// Half of what a rank copies it reads and writes in its own memory, the other half in that
// of its peer, as calls do. Buffers rotate beyond the cache, but for the row of one that
// stays in it. For each size it prints GB/s of one rank, while the other does the same,
// medians:
//
//   - plain: Go's copy, in pieces that it stores in the cache.
//   - around: stores around the cache.
//   - asked: the same, and what is read next is asked for. This is the rate of the bound.
//   - cached: plain, on one buffer again and again.
//
// Then, for each collective: half of the bytes that a rank has to read and to write, as a copy
// reads and writes each; how long that takes at the greatest of the rates from memory; the
// median time of a call; and how many times as long it is.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/weft-go/weft/collectives"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/cache"
	"github.com/weft-go/weft/kernels"
)

const (
	poolBytes = 64 << 20 // of sources, and of destinations, on each rank
	mostBytes = 64 << 20
	piece     = 256 << 10
	samples   = 15
	// sampleBytes is what one sample copies at least, since clocks and barriers take time.
	sampleBytes = 8 << 20
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "copyrate:", err)
		os.Exit(1)
	}
}

// pool is memory of both ranks.
type pool struct {
	ctx      context.Context
	c        *comm.Communicator
	src, dst [2][]byte // by rank
	at       int       // where the next buffer begins
	longest  []int64
}

func run(ctx context.Context) error {
	c, err := comm.Init(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if c.Size() != 2 {
		return fmt.Errorf("%d ranks, want 2", c.Size())
	}
	p := &pool{ctx: ctx, c: c, longest: make([]int64, 1)}
	for _, b := range []*[2][]byte{&p.src, &p.dst} {
		buf, err := comm.Alloc[float32](ctx, c, poolBytes/4)
		if err != nil {
			return err
		}
		for rank := range b {
			memory := buf.Peer(rank)
			if memory == nil {
				return errors.New("the other rank's memory is not mapped")
			}
			b[rank] = kernels.Bytes(memory)
		}
	}
	say := func(format string, args ...any) {
		if c.Rank() == 0 {
			fmt.Printf(format+"\n", args...)
		}
	}
	say("%10s %8s %8s %8s %8s   GB/s", "bytes", "plain", "around", "asked", "cached")
	rates := map[int]float64{}
	for size := 32 << 10; size <= mostBytes; size *= 8 {
		size = min(size, mostBytes)
		var row [4]float64
		for i, f := range []func(dst, src []byte){plain, around, asked, plain} {
			ns, err := p.measure(size, i < 3, func(at int) error { p.copy(f, at, size); return nil })
			if err != nil {
				return err
			}
			row[i] = float64(size) / ns
		}
		rates[size] = max(row[0], row[1], row[2])
		say("%10d %8.1f %8.1f %8.1f %8.1f", size, row[0], row[1], row[2], row[3])
	}
	say("\n%-14s %10s %10s %10s %10s %6s", "", "bytes", "moved", "bound µs", "µs", "times")
	for _, k := range calls {
		for size := 32 << 10; size <= mostBytes; size *= 8 {
			size = min(size, mostBytes)
			ns, err := p.measure(size, true, func(at int) error { return k.call(p, at, size) })
			if err != nil {
				return err
			}
			moved := k.moved(size)
			bound := float64(moved) / rates[size]
			say("%-14s %10d %10d %10.1f %10.1f %6.2f", k.name, size, moved, bound/1000, ns/1000, ns/bound)
		}
	}
	return nil
}

// plain copies in pieces for which Go does not go around the cache.
func plain(dst, src []byte) {
	for len(src) > 0 {
		n := copy(dst, src[:min(len(src), piece)])
		dst, src = dst[n:], src[n:]
	}
}

// around copies without that what comes next is asked for: pieces are too short for it.
func around(dst, src []byte) {
	const short = 4 << 10
	for len(src) > 0 {
		n := min(len(src), short)
		cache.Stream(dst[:n], src[:n])
		dst, src = dst[n:], src[n:]
	}
}

func asked(dst, src []byte) {
	for len(src) > 0 {
		n := min(len(src), piece)
		cache.Stream(dst[:n], src[:n])
		dst, src = dst[n:], src[n:]
	}
}

// copy has this rank copy a buffer, half of it here and half of it at the peer.
func (p *pool) copy(f func(dst, src []byte), at, size int) {
	me := p.c.Rank()
	for k, rank := range []int{me, 1 - me} {
		from := at + (me+k)%2*(size/2)
		f(p.dst[rank][from:][:size/2], p.src[me][from:][:size/2])
	}
}

// measure returns the median of how long one takes on the slower rank, in ns.
func (p *pool) measure(size int, rotates bool, one func(at int) error) (float64, error) {
	times := max(1, sampleBytes/size)
	var all []float64
	for i := range samples + 1 {
		if err := collectives.Barrier(p.ctx, p.c); err != nil {
			return 0, err
		}
		begin := time.Now()
		for range times {
			if err := one(p.at); err != nil {
				return 0, err
			}
			if rotates {
				if p.at += size; p.at+size > poolBytes {
					p.at = 0
				}
			}
		}
		p.longest[0] = time.Since(begin).Nanoseconds()
		if err := collectives.AllReduce(p.ctx, p.c, p.longest, p.longest, kernels.Max); err != nil {
			return 0, err
		}
		if i > 0 { // the first is to warm up
			all = append(all, float64(p.longest[0])/float64(times))
		}
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

// calls are the collectives that are measured. Sizes are as in bench/perf: where there are
// blocks, of all of them together.
var calls = []struct {
	name  string
	moved func(size int) int // half of the bytes that a rank has to read and to write
	call  func(p *pool, at, size int) error
}{
	{"AllReduce", func(n int) int { return n }, func(p *pool, at, n int) error {
		return collectives.AllReduce(p.ctx, p.c, p.own(&p.dst, at, n), p.own(&p.src, at, n), kernels.Sum)
	}},
	{"AllToAll", func(n int) int { return n }, func(p *pool, at, n int) error {
		return collectives.AllToAll(p.ctx, p.c, p.own(&p.dst, at, n), p.own(&p.src, at, n))
	}},
	{"AllGather", func(n int) int { return n * 3 / 4 }, func(p *pool, at, n int) error {
		return collectives.AllGather(p.ctx, p.c, p.own(&p.dst, at, n), p.own(&p.src, at, n/2))
	}},
	{"ReduceScatter", func(n int) int { return n * 3 / 4 }, func(p *pool, at, n int) error {
		return collectives.ReduceScatterBlock(p.ctx, p.c, p.own(&p.dst, at, n/2), p.own(&p.src, at, n), kernels.Sum)
	}},
	{"Broadcast", func(n int) int { return n / 2 }, func(p *pool, at, n int) error {
		return collectives.Broadcast(p.ctx, p.c, p.own(&p.dst, at, n), 0)
	}},
}

// own is a slice of this rank's memory.
func (p *pool) own(b *[2][]byte, at, n int) []float32 {
	return kernels.Slice[float32](b[p.c.Rank()])[at/4 : (at+n)/4]
}
