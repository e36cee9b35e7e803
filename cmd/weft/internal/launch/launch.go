// Package launch starts the ranks of a job as processes of this machine, joins
// their output, and sees to it that none of them outlives the job.
package launch

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// Exit statuses of a job for reasons other than a rank's own status.
const (
	StatusTimeout       = 124 // the time limit passed; as timeout(1) says it
	StatusNotExecutable = 126 // the program is there but can't be run
	StatusNotFound      = 127 // no such program
)

// Config says what to start and how to treat it.
type Config struct {
	Size int      // number of ranks
	Prog string   // program, looked up in PATH if it has no slash
	Args []string // its arguments
	Env  []string // environment to build each rank's from; see [Environ]

	Stdin  io.Reader // for rank 0; nil means that it gets none, as the others
	Stdout io.Writer
	Stderr io.Writer // also gets the launcher's own messages
	Prefix bool      // put "[rank] " before each line

	KeepGoing bool          // a failed rank does not end the others
	Grace     time.Duration // from the polite to the final signal
	Timeout   time.Duration // the job is ended after it; 0 means no limit

	// Guard is a command that calls [Guard], to end what ranks have started if the
	// caller is killed by force; none: nobody does.
	Guard []string

	// Signals are passed on to the ranks. The second one that asks to end kills
	// them.
	Signals <-chan os.Signal
}

// Run starts the ranks and returns when all have ended, with the exit status
// of the job: that of the rank that failed first, 128+n if signal n ended it,
// or 0. An error means that the job could not be started; then no rank is left
// and the status says why.
//
// The ranks die as well if the calling process does, and with a guard so do processes
// that they started themselves.
func Run(cfg Config) (int, error) {
	prog, err := exec.LookPath(cfg.Prog)
	if err != nil {
		return startStatus(err), err
	}
	id, err := newIdentity()
	if err != nil {
		return 1, err
	}
	j := &job{
		cfg:   cfg,
		out:   newOutput(cfg.Stdout, cfg.Stderr, cfg.Prefix),
		ended: make(chan ended, cfg.Size),
	}
	defer j.out.close()

	if len(cfg.Guard) > 0 {
		if j.guard, err = startGuard(cfg.Guard); err != nil {
			return 1, fmt.Errorf("guard: %w", err)
		}
		defer j.guard.stop()
	}
	threads := newSpawner()
	defer threads.stop()
	for i := range cfg.Size {
		var r *rank
		var err error
		threads.do(func() {
			r, err = startRank(i, prog, cfg.Args, id.environ(cfg.Env, i, cfg.Size), j.stdin(i))
		})
		if err != nil {
			j.abandon()
			return startStatus(err), fmt.Errorf("rank %d: %w", i, err)
		}
		j.add(r)
	}
	return j.supervise(), nil
}

// stdin returns what rank i reads from.
func (j *job) stdin(i int) io.Reader {
	if i == 0 {
		return j.cfg.Stdin
	}
	return nil
}
