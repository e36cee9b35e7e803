package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/weft-go/weft/bench/internal/harness"
	"github.com/weft-go/weft/bench/internal/record"
	"github.com/weft-go/weft/collectives"
	"github.com/weft-go/weft/comm"
)

// askEvery is the calls between two in which the first rank of a group says whether
// the phase is over.
const askEvery = 8

// A report is the line of one rank.
type report struct {
	Rank      int     `json:"rank"`
	Calls     int64   `json:"calls"` // in phases of several groups
	CPUSec    float64 `json:"cpu_s"` // used, in all phases
	LongestMs float64 `json:"longest_ms"`
	Stalls    int64   `json:"stalls"` // calls that took more than 100 ms
}

// A verdict is the last line.
type verdict struct {
	Ranks      int        `json:"ranks"`
	Seconds    float64    `json:"seconds"`
	Phases     int        `json:"phases"`
	Calls      int64      `json:"calls"` // of all ranks, in all phases
	Ratio      float64    `json:"calls_ratio"`
	PhaseRatio float64    `json:"phase_calls_ratio"` // the largest in one phase
	CPURatio   float64    `json:"cpu_ratio"`
	LongestMs  float64    `json:"longest_ms"`
	Env        record.Env `json:"env"`
}

const stallTime = 100 * time.Millisecond

// groupSizes are those of the phases, in turn; 0 is all ranks.
var groupSizes = []int{2, 4, 0}

// colorOf is the group of a rank in a phase. Groups have size ranks, the last one up to
// twice as many; their members change from phase to phase.
func colorOf(rank, ranks, size, phase int) int {
	if size == 0 || size >= ranks {
		return 0
	}
	// Members are neighbours, then every second rank, and so on.
	step := 1 + phase/len(groupSizes)%(ranks-1)
	for gcd(step, ranks) != 1 {
		step++
	}
	return min(rank*step%ranks/size, ranks/size-1)
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// tally is what a rank counts.
type tally struct {
	inGroups, all, stalls int64
	longest               time.Duration
}

// measure makes the calls and tells of them.
func measure(ctx context.Context, c *comm.Communicator, s *settings, out io.Writer) error {
	room := s.maxBytes / 4 * c.Size()
	src, dst := make([]int32, room), make([]int32, room)
	for i := range src { // pages are given when first written to, which takes long
		src[i], dst[i] = 1, 1
	}
	begin, cpu := time.Now(), harness.ProcessTime()
	var mine tally
	phases, worst := 0, 1.0
	for over := false; !over; phases++ {
		size := groupSizes[phases%len(groupSizes)]
		several := size != 0 && c.Size() >= 2*size
		calls, err := phase(ctx, c, colorOf(c.Rank(), c.Size(), size, phases), func(group *comm.Communicator) *caller {
			return newCaller(group, s.seed, uint64(phases), s.maxBytes, src, dst)
		}, s.phase, &mine)
		if err != nil {
			return err
		}
		mine.all += calls
		if several {
			mine.inGroups += calls
		}
		elapsed := make([]int64, c.Size())
		if err := collectives.AllGather(ctx, c, elapsed, []int64{int64(time.Since(begin))}); err != nil {
			return err
		}
		over = time.Duration(elapsed[0]) >= s.duration
		counts := make([]int64, c.Size())
		if err := collectives.AllGather(ctx, c, counts, []int64{calls}); err != nil {
			return err
		}
		if several && c.Size()%size == 0 { // groups of other sizes make other calls
			worst = max(worst, ratio(counts))
		}
	}
	seconds := time.Since(begin).Seconds()
	all := make([]report, c.Size())
	own := report{Rank: c.Rank(), Calls: mine.inGroups, CPUSec: (harness.ProcessTime() - cpu).Seconds(), LongestMs: mine.longest.Seconds() * 1e3, Stalls: mine.stalls}
	if err := collectives.AllGather(ctx, c, all, []report{own}); err != nil {
		return err
	}
	sum := []int64{mine.all}
	totals := make([]int64, c.Size())
	if err := collectives.AllGather(ctx, c, totals, sum); err != nil {
		return err
	}
	v := verdict{Ranks: c.Size(), Seconds: seconds, Phases: phases, PhaseRatio: worst, Env: harness.Environment(c, "fairness", s.args)}
	var calls []int64
	var cpus []float64
	for i, r := range all {
		v.Calls += totals[i]
		v.LongestMs = max(v.LongestMs, r.LongestMs)
		calls, cpus = append(calls, r.Calls), append(cpus, r.CPUSec)
	}
	v.Ratio, v.CPURatio = ratio(calls), ratio(cpus)
	var err error
	if c.Rank() == 0 {
		show(out, all, &v)
		err = write(s.json, all, &v)
	}
	switch { // the same on all ranks
	case s.ratio > 0 && v.Ratio > s.ratio:
		err = errors.Join(err, fmt.Errorf("the fastest rank made %.2f times the calls of the slowest", v.Ratio))
	case s.stall > 0 && v.LongestMs > s.stall.Seconds()*1e3:
		err = errors.Join(err, fmt.Errorf("a call took %.0f ms", v.LongestMs))
	}
	return err
}

// ratio is the largest by the smallest; 1 if all are 0, and if some are without end, which
// JSON does not have, a billion.
func ratio[T int64 | float64](values []T) float64 {
	least, most := slices.Min(values), slices.Max(values)
	switch {
	case most == 0:
		return 1
	case least <= 0:
		return 1e9
	}
	return float64(most) / float64(least)
}

// phase makes calls in a group until its time is over. All groups have left it when
// it returns the number of calls.
func phase(ctx context.Context, c *comm.Communicator, color int, open func(group *comm.Communicator) *caller, length time.Duration, t *tally) (int64, error) {
	group, err := c.Split(ctx, color, c.Rank())
	if err != nil {
		return 0, err
	}
	defer group.Close()
	if err := collectives.Barrier(ctx, c); err != nil {
		return 0, err
	}
	calls := int64(0)
	from := open(group)
	begin := time.Now()
	for last := begin; ; {
		if err := from.next(ctx); err != nil {
			return calls, err
		}
		now := time.Now()
		took := now.Sub(last)
		last = now
		calls++
		t.longest = max(t.longest, took)
		if took > stallTime {
			t.stalls++
		}
		if calls%askEvery != 0 {
			continue
		}
		over := []bool{now.Sub(begin) >= length}
		if err := collectives.Broadcast(ctx, group, over, 0); err != nil {
			return calls, err
		}
		if over[0] {
			break
		}
	}
	// The others' groups may take a while yet.
	return calls, errors.Join(collectives.Barrier(ctx, c), group.Close())
}

func show(w io.Writer, all []report, v *verdict) {
	fmt.Fprintf(w, "# %d ranks, %.0f s, %d phases, %d calls\n", v.Ranks, v.Seconds, v.Phases, v.Calls)
	fmt.Fprintf(w, "# %4s  %12s  %8s  %12s  %12s\n", "rank", "group calls", "cpu (s)", "longest (ms)", "over 100 ms")
	for _, r := range all {
		fmt.Fprintf(w, "  %4d  %12d  %8.1f  %12.1f  %12d\n", r.Rank, r.Calls, r.CPUSec, r.LongestMs, r.Stalls)
	}
	fmt.Fprintf(w, "# fastest by slowest: %.2f in calls, %.2f in the worst phase, %.2f in CPU time; longest call %.1f ms\n",
		v.Ratio, v.PhaseRatio, v.CPURatio, v.LongestMs)
}

func write(name string, all []report, v *verdict) error {
	if name == "" {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(f)
	for _, r := range all {
		err = errors.Join(err, enc.Encode(r))
	}
	return errors.Join(err, enc.Encode(v), f.Close())
}
