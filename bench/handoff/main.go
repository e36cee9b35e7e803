// Command handoff measures what a call of a few bytes can't be faster than: the time that
// a line of 64 bytes takes from one processor to another, without anything of the library
// around it. It wants two ranks on two processors:
//
//	go build -o bin/ ./cmd/weft ./bench/handoff
//	bin/weft run -n 2 -- bin/handoff
//
// It prints nanoseconds, the least of several repetitions:
//
//   - one way: the ranks answer each other, half a round trip.
//   - exchange: each rank stores a line at the other and waits for the other's, again and
//     again, with work of so many nanoseconds in each round: all of it before the store,
//     or half of it behind, while the lines are on their way.
//   - the same with more bytes: in whole lines, and one word behind them; or in lines that
//     have a word each.
//   - an AllReduce by hand of two ranks: float32 added, from and to buffers that are always the
//     same, or rotate beyond the caches as those of bench/perf do. And the library's, with the latter.
package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weft-go/weft/collectives"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/release"
)

const (
	lineWords  = 8
	slots      = 4
	slotWords  = 16 * lineWords
	rounds     = 50_000
	repeats    = 7
	mostNs     = 50 // of work
	stepNs     = 25
	calibrated = 10_000_000
)

// end is this rank's end of the exchange.
type end struct {
	rank       int
	out, in    []uint64 // slots at the peer, and here
	number     uint64
	loopsPerNs float64
	data, sink [slotWords]uint64
	src, dst   []uint64 // pools of the AllReduce
	err        error    // of a call of the library
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "handoff:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx := context.Background()
	c, err := comm.Init(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if c.Size() != 2 {
		return fmt.Errorf("%d ranks, want 2", c.Size())
	}
	buf, err := comm.Alloc[uint64](ctx, c, ringWords)
	if err != nil {
		return err
	}
	e := &end{rank: c.Rank(), out: buf.Peer(1 - c.Rank()), in: buf.Slice()}
	if e.out == nil {
		return errors.New("the other rank's memory is not mapped")
	}
	e.calibrate()
	say := func(name string, round func(before, behind int), before, behind int) error {
		least := math.Inf(1)
		for range repeats {
			if err := collectives.Barrier(ctx, c); err != nil {
				return err
			}
			begin := time.Now()
			for range rounds {
				round(before, behind)
			}
			least = min(least, float64(time.Since(begin).Nanoseconds())/rounds)
			if e.err != nil {
				return e.err
			}
		}
		if c.Rank() == 0 {
			fmt.Printf("%-46s %6.0f ns\n", name, least)
		}
		return nil
	}
	if err := say("one way", func(int, int) { e.answer() }, 0, 0); err != nil {
		return err
	}
	for work := 0; work <= mostNs; work += stepNs {
		for behind := 0; behind <= work/2; behind += max(work/2, 1) {
			name := fmt.Sprintf("exchange of a line, %d ns work, %d behind", work, behind)
			if err := say(name, e.exchange(1), e.loops(work-behind), e.loops(behind)); err != nil {
				return err
			}
		}
	}
	if err := e.fill(); err != nil {
		return err
	}
	for _, bytes := range []int{8, 64, 512, 4096} {
		for _, warm := range []bool{true, false} {
			name := fmt.Sprintf("AllReduce of %d bytes, cold buffers", bytes)
			if warm {
				name = fmt.Sprintf("AllReduce of %d bytes, warm buffers", bytes)
			}
			if err := say(name, e.allReduce(bytes, warm), 0, 0); err != nil {
				return err
			}
		}
		if err := say(fmt.Sprintf("weft: AllReduce of %d bytes, cold buffers", bytes), e.library(ctx, c, bytes), 0, 0); err != nil {
			return err
		}
	}
	for _, bytes := range []int{64, 512} {
		if err := say(fmt.Sprintf("exchange of %d bytes, one word", bytes), e.whole(bytes/8), 0, 0); err != nil {
			return err
		}
		if err := say(fmt.Sprintf("exchange of %d bytes, a word in each line", bytes), e.exchange((bytes+55)/56), 0, 0); err != nil {
			return err
		}
	}
	return nil
}

// calibrate finds how long the loop takes that stands for work.
func (e *end) calibrate() {
	begin := time.Now()
	e.work(calibrated)
	e.loopsPerNs = calibrated / float64(time.Since(begin).Nanoseconds())
}

func (e *end) loops(ns int) int { return int(float64(ns) * e.loopsPerNs) }

//go:noinline
func (e *end) work(loops int) {
	for i := range loops {
		e.sink[0] ^= uint64(i)
	}
}

func word(b []uint64, i int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&b[i])) }

// wait waits until a word is the current number. It lets the runtime in now and then.
func (e *end) wait(w *atomic.Uint64) {
	for i := 1; w.Load() != e.number; i++ {
		if i%(1<<20) == 0 {
			runtime.Gosched()
		}
	}
}

// answer is half a round trip, seen from both sides.
func (e *end) answer() {
	e.number++
	if uint64(e.rank) == e.number%2 {
		release.Store(word(e.out, 0), e.number)
	} else {
		e.wait(word(e.in, 0))
	}
}

// exchange returns a round in which so many lines are exchanged, each with its word.
func (e *end) exchange(lines int) func(before, behind int) {
	return func(before, behind int) {
		e.work(before)
		e.number++
		at := int(e.number%slots) * slotWords
		for j := range lines {
			line := e.out[at+j*lineWords:][:lineWords]
			copy(line[1:], e.data[j*lineWords:][:lineWords-1])
			release.Store(word(line, 0), e.number)
		}
		e.work(behind)
		for j := range lines {
			line := e.in[at+j*lineWords:][:lineWords]
			e.wait(word(line, 0))
			copy(e.sink[j*lineWords:], line[1:])
		}
	}
}

// whole returns a round in which so many words are exchanged in lines of their own, and
// then a word that says that they are there.
func (e *end) whole(words int) func(before, behind int) {
	return func(_, _ int) {
		e.number++
		at := int(e.number%slots) * slotWords
		copy(e.out[at+lineWords:][:words], e.data[:words])
		release.Store(word(e.out, at), e.number)
		e.wait(word(e.in, at))
		copy(e.sink[:words], e.in[at+lineWords:][:words])
	}
}
