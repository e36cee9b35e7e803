package comm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weft-go/weft/comm/bootstrap"
	"github.com/weft-go/weft/transport/progress"
	"github.com/weft-go/weft/transport/progress/lane"
)

// rootID is the id of the communicator of all ranks.
const rootID = 1

// Init joins the job that this process was started in and returns the
// communicator of all its ranks. It blocks until all ranks have called it, ctx
// ends, or a minute has passed without them.
//
// Rank and size come from, in this order: weft run; MPI, if the program is built
// with -tags mpi and was started by an MPI launcher or has called MPI's Init
// itself; the environment of an MPI launcher, Slurm or torchrun; otherwise the
// process is the only rank. An environment that says more than one rank and
// can't be honoured is an error. See package bootstrap. An option or a variable that is
// wrong on one rank is an error on all, which names it: on the others a [bootstrap.ErrRefused],
// or an [AbortError] if it could be seen only once the ranks had met, as a plan of faults that
// names a rank which the job has not; not so one that says who is in the job.
func Init(ctx context.Context, opts ...Option) (*Communicator, error) {
	if ctx == nil {
		return nil, fmt.Errorf("weft: Init: %w: nil context", ErrArgument)
	}
	s, err := configure(opts, os.Getenv)
	if err != nil { // the others would wait for this rank
		bootstrap.Refuse(ctx, bootstrap.Config{Logger: s.logger}, err.Error())
		return nil, err
	}
	ch, err := bootstrap.Connect(ctx, bootstrap.Config{Logger: s.logger})
	if err != nil {
		return nil, err
	}
	return start(ctx, ch, false, s)
}

// Local returns the communicators of n ranks in this process, one for each,
// to be used by a goroutine each.
func Local(n int, opts ...Option) ([]*Communicator, error) {
	if n < 1 || n >= maxRanks {
		return nil, fmt.Errorf("weft: Local: %w: %d ranks", ErrArgument, n)
	}
	s, err := configure(opts, os.Getenv)
	if err != nil {
		return nil, err
	}
	comms := make([]*Communicator, n)
	var g errgroup.Group
	for r, ch := range bootstrap.Local(n) {
		g.Go(func() error {
			var err error
			comms[r], err = start(context.Background(), ch, true, s)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		for _, c := range comms {
			if c != nil {
				c.Close()
			}
		}
		return nil, err
	}
	return comms, nil
}

// start makes the communicator of all ranks on a channel, which it closes if
// that fails.
func start(ctx context.Context, ch bootstrap.Channel, inProcess bool, s settings) (*Communicator, error) {
	w := newWorld(ch, inProcess, s)
	ch.Start(w)
	members := make([]int, ch.Size())
	for i := range members {
		members[i] = i
	}
	err := w.checkReachable()
	if err == nil {
		var c *Communicator
		if c, err = w.newCommunicator(ctx, nil, rootID, members, s.timeout); err == nil {
			w.logger.Info("joined", "size", ch.Size(), "source", ch.Source(), "transport", w.transport.Name())
			return c, nil
		}
		err = fmt.Errorf("weft: Init: rank %d: %w", ch.Rank(), err)
	}
	end, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	return nil, errors.Join(err, w.close(end))
}

// newCommunicator makes a communicator of the given world ranks, this one among
// them; all of them call it. If parent, which may be nil, ends meanwhile, so does
// the attempt: some rank may not have come this far.
func (w *world) newCommunicator(ctx context.Context, parent *Communicator, id uint64, members []int, timeout time.Duration) (*Communicator, error) {
	c := &Communicator{
		world: w, id: id, members: members, rank: slices.Index(members, w.ch.Rank()),
		timeout: timeout, stop: progress.NewStop(), buffers: map[freer]struct{}{},
		commits: w.settings.commit && len(members) > 1,
	}
	c.madeBy = time.Now().Add(timeout)
	if parent != nil { // it is part of a call
		c.madeBy = parent.engine.Deadline()
	}
	c.agreement.left = make(chan struct{})
	c.agreement.part = lane.NewAgreement[*record](c.rank, len(members))
	if c.commits {
		c.agreement.votes.news = make(chan struct{}, 1)
		if c.rank == 0 {
			c.agreement.votes.cast = make([]vote, len(members))
		}
	}
	c.logger = w.logger
	if id != rootID {
		c.logger = w.logger.With("comm", fmt.Sprintf("%016x", id), "commrank", c.rank)
	}
	w.register(c)
	if parent != nil {
		defer parent.stop.OnSet(func() { c.propose(c.orphaned(parent)) })()
	}
	err := w.unopened
	if err == nil && id == rootID { // the others have them from it
		err = c.agreeSettings(ctx)
	}
	if err == nil {
		err = c.connect(ctx)
	}
	if err == nil {
		// Nobody goes on before all have what they need.
		_, err = c.exchange(ctx, bootstrap.Message{})
	}
	c.madeBy = time.Time{}
	if err == nil {
		return c, nil
	}
	var abort *AbortError
	if errors.As(err, &abort) && c.engine != nil && (abort.Reason == ReasonAbort || abort.Seq != 0) {
		return c, nil // a rank that has it already, and so knows that all do, ended it
	}
	err = c.notMade(ctx, err)
	if w.unopened != nil && !errors.Is(err, w.unopened) { // the ranks have agreed on what another says
		err = fmt.Errorf("%w; this rank: %w", err, w.unopened)
	}
	c.leaveAgreement()
	w.unregister(c)
	c.xchg.drop()
	if c.messages != nil {
		c.messages.close()
	}
	if c.engine != nil {
		c.detours.deliverTo(nil)
		err = errors.Join(err, c.engine.Close())
	}
	return nil, err
}

// notMade ends a communicator that is being made: the others wait for this rank,
// whatever it was. It returns what counts.
func (c *Communicator) notMade(ctx context.Context, err error) error {
	var wait *progress.WaitError
	var abort *AbortError
	err = ownContext(ctx, c.rank, err)
	switch {
	case c.stop.Err() != nil:
		return c.stop.Err()
	case errors.As(err, &wait):
		return c.gaveUp(Call{}, 0, wait)
	case errors.As(err, &abort):
		return c.abort(abort)
	}
	return c.abort(&AbortError{Origin: c.rank, Reason: ReasonFailed, Detail: err.Error(), cause: err})
}

// ownContext returns err as the end of a wait of this rank's if it is the error of ctx,
// which transports return as it is.
func ownContext(ctx context.Context, rank int, err error) error {
	var wait *progress.WaitError
	var abort *AbortError
	if own := ctx.Err(); own != nil && errors.Is(err, own) && !errors.As(err, &wait) && !errors.As(err, &abort) {
		return &progress.WaitError{Peer: rank, Err: own}
	}
	return err
}

// orphaned says that the parent ended before this communicator was made.
func (c *Communicator) orphaned(parent *Communicator) *AbortError {
	e := &AbortError{Origin: c.rank, Reason: ReasonFailed, Detail: "the communicator that it is made from ended: " + parent.stop.Err().Error()}
	var abort *AbortError
	if errors.As(parent.stop.Err(), &abort) {
		e.Reason = abort.Reason
		if here := slices.Index(c.members, parent.members[abort.Origin]); here >= 0 {
			e.Origin, e.Detail = here, abort.Detail
		}
		for _, r := range abort.Ranks {
			if here := slices.Index(c.members, parent.members[r]); here >= 0 {
				e.Ranks = append(e.Ranks, here)
			}
		}
	}
	return e
}

// flag is how a variable says yes or no.
func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// agreeSettings makes sure that all ranks were given the same settings where
// that matters: they all see the same difference.
func (c *Communicator) agreeSettings(ctx context.Context) error {
	s := c.world.settings
	names := []string{"WEFT_FAULTS", "WEFT_TRANSPORT", "WEFT_ALGO", "WEFT_REROUTE", "WEFT_COMMIT"} // a plan chooses the transport, so first
	mine := []string{s.faults, s.transport, s.algorithm, s.reroute.String(), flag(s.commit)}
	all, err := c.exchange(ctx, bootstrap.Message{Data: []byte(strings.Join(mine, "\x00"))})
	if err != nil {
		return err
	}
	first := strings.Split(string(all[0].Data), "\x00")
	for p, m := range all {
		for i, v := range strings.Split(string(m.Data), "\x00") {
			if i < len(first) && i < len(names) && v != first[i] {
				return &AbortError{Origin: c.rank, Reason: ReasonMismatch, Ranks: []int{0, p},
					Detail: fmt.Sprintf("%s is %q on rank 0 and %q on rank %d", names[i], first[i], v, p)}
			}
		}
	}
	return nil
}
