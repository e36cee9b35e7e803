package harness

import (
	"fmt"
	"io"
	"time"

	"github.com/weft-go/weft/bench/internal/record"
	"github.com/weft-go/weft/comm"
	engine "github.com/weft-go/weft/transport/progress"
)

// processorUse is what a rank's processor did while blocks were timed, barriers between
// batches included.
type processorUse struct {
	wall, cpu float64 // seconds
	waits     engine.WaitStats
	calls     float64
}

// A watch reads what a processorUse is made of. Waits are those of ours, in the peer's blocks
// those of the barriers.
type watch struct {
	begin time.Time
	cpu   time.Duration
	waits engine.WaitStats
}

func startWatch(c *comm.Communicator) watch {
	waits, _ := c.Waits() // if this fails, so does the next call, and says why
	return watch{time.Now(), ProcessTime(), waits}
}

// stop adds what has come since the start to u.
func (w watch) stop(c *comm.Communicator, calls int, u *processorUse) {
	now := startWatch(c)
	u.wall += now.begin.Sub(w.begin).Seconds()
	u.cpu += (now.cpu - w.cpu).Seconds()
	waits := now.waits.Sub(w.waits)
	u.waits.Pauses += waits.Pauses
	u.waits.Yields += waits.Yields
	u.waits.Sleeps += waits.Sleeps
	u.calls += float64(calls)
}

// waitCosts are the seconds of processor time that one pause and one yield take.
type waitCosts struct{ pause, yield float64 }

// sums are what the ranks add up.
func (u *processorUse) sums(costs waitCosts) []float64 {
	waiting := float64(u.waits.Pauses)*costs.pause + float64(u.waits.Yields)*costs.yield
	return []float64{u.wall, u.cpu, waiting, float64(u.waits.Yields), float64(u.waits.Sleeps), u.calls}
}

// setUsage tells of sums in a line.
func setUsage(l *record.Line, sums []float64) {
	wall, cpu, waiting, yields, sleeps, calls := sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]
	if wall <= 0 || calls <= 0 {
		return
	}
	percent := func(part float64) *float64 {
		p := 100 * part / wall
		return &p
	}
	yields, sleeps = yields/calls, sleeps/calls
	l.CPUPct, l.WaitPct = percent(cpu), percent(min(waiting, cpu)) // waiting is an estimate
	l.Yields, l.Sleeps = &yields, &sleeps
}

// setPeerUsage tells of a peer's sums.
func setPeerUsage(l *record.Line, sums []float64) {
	if sums[0] > 0 {
		p := 100 * sums[1] / sums[0]
		l.PeerCPUPct = &p
	}
}

// explainUsage prints what processors did.
func explainUsage(w io.Writer, l *record.Line) {
	if l.CPUPct == nil {
		return
	}
	fmt.Fprintf(w, "#   %s: a rank used %.0f %% of a processor, %.0f %% for waiting, by %.1f yields and %.2f sleeps per call",
		place(l), *l.CPUPct, *l.WaitPct, *l.Yields, *l.Sleeps)
	if l.PeerCPUPct != nil {
		fmt.Fprintf(w, "; with %s %.0f %%", l.Peer, *l.PeerCPUPct)
	}
	fmt.Fprintln(w)
}

// usageTally is what all rows of a sheet used, on average.
type usageTally struct{ rows, cpu, wait, peerRows, peerCPU float64 }

func (t *usageTally) add(l *record.Line) {
	if l == nil || l.CPUPct == nil {
		return
	}
	t.rows++
	t.cpu += *l.CPUPct
	t.wait += *l.WaitPct
	if l.PeerCPUPct != nil {
		t.peerRows++
		t.peerCPU += *l.PeerCPUPct
	}
}

func (t *usageTally) print(w io.Writer, peer string) {
	if t.rows == 0 {
		return
	}
	fmt.Fprintf(w, "# Avg CPU use per rank : %.0f %%, %.0f %% for waiting", t.cpu/t.rows, t.wait/t.rows)
	if t.peerRows > 0 {
		fmt.Fprintf(w, "; with %s %.0f %%", peer, t.peerCPU/t.peerRows)
	}
	fmt.Fprintf(w, "\n#\n")
}
