package launch

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// A job is the set of running ranks.
type job struct {
	cfg   Config
	out   *output
	ranks []*rank
	ended chan ended
	guard *guard

	status int         // of the first failure
	failed bool        // status is set
	ending bool        // the ranks have been told to end
	asked  bool        // a signal from outside asked them to
	grace  *time.Timer // runs while ending
}

// ended is the news that a rank has ended.
type ended struct {
	rank  *rank
	state *os.ProcessState
	err   error
}

// add takes over a started rank.
func (j *job) add(r *rank) {
	j.ranks = append(j.ranks, r)
	r.guard = j.guard
	r.guard.watch(r.cmd.Process.Pid)
	prefix := fmt.Sprintf("[%d] ", r.id)
	j.out.copy(r.stdout, &j.out.stdout, prefix)
	j.out.copy(r.stderr, &j.out.stderr, prefix)
	go func() {
		state, err := r.wait(j.cfg.Grace)
		j.ended <- ended{r, state, err}
	}()
}

// abandon ends a job that could not be started in full.
func (j *job) abandon() {
	j.signal(syscall.SIGKILL)
	for range j.ranks {
		<-j.ended
	}
}

// supervise waits for all ranks and returns the job's exit status.
func (j *job) supervise() int {
	var limit <-chan time.Time
	if j.cfg.Timeout > 0 {
		t := time.NewTimer(j.cfg.Timeout)
		defer t.Stop()
		limit = t.C
	}
	j.grace = time.NewTimer(0)
	<-j.grace.C
	defer j.grace.Stop()

	for left := len(j.ranks); left > 0; {
		select {
		case e := <-j.ended:
			left--
			j.rankEnded(e, left)
		case sig := <-j.cfg.Signals:
			j.passOn(sig)
		case <-limit:
			j.say("still running after %v, ending all ranks", j.cfg.Timeout)
			j.fail(StatusTimeout)
			j.end()
		case <-j.grace.C:
			j.signal(syscall.SIGKILL)
		}
	}
	return j.status
}

// rankEnded notes how a rank ended; left is the number that still run.
func (j *job) rankEnded(e ended, left int) {
	status, how := 1, ""
	if e.err != nil {
		how = "was lost: " + e.err.Error()
	} else if status, how = outcome(e.state); status == 0 {
		return
	}
	j.fail(status)
	switch {
	case j.ending: // it ended because it was told to
	case j.cfg.KeepGoing || left == 0:
		j.say("rank %d %s", e.rank.id, how)
	default:
		j.say("rank %d %s, ending the others", e.rank.id, how)
		j.end()
	}
}

// fail sets the job's exit status, once.
func (j *job) fail(status int) {
	if !j.failed {
		j.failed, j.status = true, status
	}
}

// end tells all ranks to end, and kills them after the grace period.
func (j *job) end() {
	if j.ending {
		return
	}
	j.ending = true
	j.signal(syscall.SIGTERM)
	j.grace.Reset(j.cfg.Grace)
}

// patience is how much more than the grace period ranks get that a person has
// asked to end: they may have something to save.
const patience = 5

// passOn gives the ranks a signal that the launcher got.
func (j *job) passOn(sig os.Signal) {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return
	}
	if endsJob(s) {
		if j.asked {
			s = syscall.SIGKILL
		} else if !j.ending {
			j.grace.Reset(patience * j.cfg.Grace)
		}
		j.asked = true
	}
	j.signal(s)
}

func (j *job) signal(s syscall.Signal) {
	for _, r := range j.ranks {
		r.signal(s)
	}
}

// say writes a line of the launcher's own.
func (j *job) say(format string, args ...any) {
	j.out.say("weft run: " + fmt.Sprintf(format, args...))
}
