//go:build mpi

package bootstrap

/*
#cgo pkg-config: ompi
#include <mpi.h>
*/
import "C"

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"

	"github.com/emer/empi/mpi"
)

// mpiState is the process's use of MPI, which can be initialised and finalised
// only once per process.
var mpiState struct {
	sync.Mutex
	ours   bool       // we have initialised it, so we finalise it
	over   bool       // we have finalised it
	wedged bool       // a call has not returned in time: MPI is lost
	users  int        // channels: open, opening, closing
	open   int        // those of them that aren't closing
	clean  bool       // the last one to be open has heard every rank's goodbye
	thread *mpiThread // while there are users
}

// An mpiThread makes all of our MPI calls on one thread, one after the other,
// which suits every level of thread support.
type mpiThread struct{ calls chan func() }

func startMPIThread() *mpiThread {
	t := &mpiThread{calls: make(chan func())}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for f := range t.calls {
			f()
		}
	}()
	return t
}

// do makes a call. MPI can't be interrupted: when ctx ends first, the call is
// left to itself and MPI is not used again.
func (t *mpiThread) do(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case t.calls <- func() { f(); close(done) }:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		mpiState.Lock()
		mpiState.wedged = true
		mpiState.Unlock()
		return ctx.Err()
	}
}

// mpiUp says whether MPI is initialised and not finalised, by whomever.
func mpiUp() bool { return mpi.IsOn() && !mpiFinalized() }

func mpiFinalized() bool {
	var flag C.int
	C.MPI_Finalized(&flag)
	return flag != 0
}

// useMPI says whether MPI brings the ranks together: a launcher that it can
// talk to has started them, or the program itself has initialised it.
func useMPI(l launch) bool {
	if l.forced || l.source == "weft run" || l.source == "env:torchrun" {
		return false
	}
	mpiState.Lock()
	lost := mpiState.wedged || mpiState.over
	mpiState.Unlock()
	return !lost && !mpiFinalized() && (l.mpi || mpi.IsOn())
}

// An mpiSession is a channel's share in MPI.
type mpiSession struct {
	log    *slog.Logger
	thread *mpiThread
}

// acquireMPI initialises MPI unless it is up.
func acquireMPI(ctx context.Context, log *slog.Logger) (*mpiSession, error) {
	mpiState.Lock()
	mpiState.users++
	mpiState.open++
	mpiState.clean = false
	if mpiState.thread == nil {
		mpiState.thread = startMPIThread()
	}
	s := &mpiSession{log: log, thread: mpiState.thread}
	mpiState.Unlock()
	err := s.thread.do(ctx, func() {
		if mpi.IsOn() {
			return
		}
		if err := mpi.InitThreadSafe(); err != nil {
			log.Debug("weft: MPI", "error", err) // initialised all the same
		}
		mpiState.Lock()
		mpiState.ours = true
		mpiState.Unlock()
	})
	if err != nil {
		s.abandon(ctx, false)
		return nil, err
	}
	return s, nil
}

// leave says that the channel is closing, and whether it is the last to do so.
// The last one must find out, by waiting for goodbyes, whether MPI can be finalised.
func (s *mpiSession) leave() (last bool) {
	mpiState.Lock()
	defer mpiState.Unlock()
	mpiState.open--
	return mpiState.open == 0
}

// abandon gives up a share that no channel came of.
func (s *mpiSession) abandon(ctx context.Context, clean bool) error {
	s.leave()
	return s.release(ctx, clean)
}

// release gives the share back. The last one finalises MPI, if it is ours and
// the last to leave has found that every rank is about to do the same:
// MPI_Finalize waits for all.
func (s *mpiSession) release(ctx context.Context, clean bool) error {
	mpiState.Lock()
	mpiState.users--
	mpiState.clean = mpiState.clean || clean
	last := mpiState.users == 0
	finalize := last && mpiState.clean && mpiState.ours && !mpiState.over && !mpiState.wedged && mpiUp()
	if finalize {
		mpiState.over = true
	}
	if last {
		mpiState.thread = nil
	}
	mpiState.Unlock()
	var err error
	if finalize {
		if err = s.thread.do(ctx, mpi.Finalize); err != nil {
			err = fmt.Errorf("weft: close: MPI_Finalize has not returned: %w", err)
		}
	}
	if last {
		close(s.thread.calls)
	}
	s.log.Debug("weft: MPI released", "last", last, "finalized", finalize, "error", err)
	return err
}

// mpiRoute is what rank 0 broadcasts: where it waits, and the token.
type mpiRoute struct {
	Error string   `json:"error,omitempty"`
	Unix  string   `json:"unix"`
	Node  string   `json:"node"`
	TCP   []string `json:"tcp"`
	Token []byte   `json:"token"`
}

// mpiRouteLen is the length of the broadcast: the same everywhere, so that one
// is enough.
const mpiRouteLen = 4096

// connectMPI connects the ranks of MPI's world. MPI tells them where to meet
// and the secret to show there, and is not needed after that.
func connectMPI(ctx context.Context, cfg Config, l launch) (Channel, error) {
	s, err := acquireMPI(ctx, cfg.Logger)
	if err != nil {
		return nil, mpiStuck(l, "MPI_Init", err)
	}
	var rank, size int
	if err := s.thread.do(ctx, func() { rank, size = mpi.WorldRank(), mpi.WorldSize() }); err != nil {
		s.abandon(ctx, false)
		return nil, mpiStuck(l, "MPI_Comm_rank", err)
	}
	fail := func(err error) (Channel, error) {
		if rerr := s.abandon(ctx, size == 1); rerr != nil {
			cfg.Logger.Debug("weft: MPI", "error", rerr)
		}
		return nil, err
	}
	if l.source != "single" && (l.size > 0 && l.size != size || l.rank != rank) {
		return fail(&LaunchError{l.seen, fmt.Sprintf("MPI says rank %d of %d", rank, size),
			"start the program with the launcher of the MPI it is linked with, or build without -tags mpi"})
	}
	l.rank, l.size = rank, size
	p := newParty(cfg, l)
	if size == 1 {
		p.me = p.describe()
		return newMesh(cfg.Logger, "mpi", 0, &outcome{members: []member{p.me}, links: make([]*conn, 1)}, s), nil
	}
	if !multiProcess {
		return fail(&LaunchError{l.seen, "ranks in several processes need Linux", orSingle})
	}
	r := new(mpiRoute)
	if rank == 0 {
		r = p.mpiListen(cfg, l)
	}
	if err := s.broadcast(ctx, r); err != nil {
		p.closeListeners()
		if ctx.Err() != nil {
			e := p.ended(ctx, nil)
			e.Detail = "not all ranks have come to MPI's broadcast"
			err = e
		}
		return fail(err)
	}
	if r.Error != "" {
		p.closeListeners()
		return fail(&JoinError{Err: ErrAddress, Rank: 0, Ranks: []int{0}, Detail: r.Error})
	}
	p.key = r.Token
	p.route = route{unix: r.Unix, node: r.Node, tcp: r.TCP}
	if cfg.tweak != nil {
		cfg.tweak(p)
	}
	c, err := p.connect(ctx, "mpi", s)
	if err != nil {
		return fail(err)
	}
	return c, nil
}

func mpiStuck(l launch, call string, err error) error {
	cause := ErrCanceled
	if errors.Is(err, context.DeadlineExceeded) {
		cause = ErrMissing
	}
	return &JoinError{Err: cause, Rank: l.rank, Detail: call + " has not returned"}
}

// mpiListen opens the listeners that the other ranks will be told of.
func (p *party) mpiListen(cfg Config, l launch) *mpiRoute {
	r := &mpiRoute{Unix: randomName(), Node: p.node, Token: newNonce()}
	ln, err := listenUnix(r.Unix)
	if err != nil {
		return &mpiRoute{Error: err.Error()}
	}
	p.lns = append(p.lns, ln)
	if l.one {
		return r
	}
	at := ":0"
	if root, _ := cfg.LookupEnv("WEFT_ROOT"); root != "" {
		at, r.TCP = listenAt(root), []string{root}
	}
	if ln, err = net.Listen("tcp", at); err != nil {
		return &mpiRoute{Error: err.Error()}
	}
	p.lns = append(p.lns, ln)
	if r.TCP == nil {
		r.TCP = advertised(ln)
	}
	return r
}

// broadcast sends rank 0's r to all ranks.
func (s *mpiSession) broadcast(ctx context.Context, r *mpiRoute) error {
	body, err := json.Marshal(r)
	if err == nil && len(body) > mpiRouteLen-4 {
		err = fmt.Errorf("route of %d bytes", len(body))
	}
	if err != nil { // the others wait for something
		body, _ = json.Marshal(&mpiRoute{Error: err.Error()})
	}
	buf := make([]byte, mpiRouteLen)
	binary.BigEndian.PutUint32(buf, uint32(len(body)))
	copy(buf[4:], body)
	var berr error
	if err := s.thread.do(ctx, func() {
		defer func(old bool) { mpi.LogErrors = old }(mpi.LogErrors)
		mpi.LogErrors = false // it would print
		var world *mpi.Comm
		if world, berr = mpi.NewComm(nil); berr == nil {
			berr = world.BcastU8(0, buf)
		}
	}); err != nil {
		return err
	}
	if berr != nil {
		return &JoinError{Err: ErrAddress, Detail: berr.Error()}
	}
	n := binary.BigEndian.Uint32(buf)
	if n > mpiRouteLen-4 {
		return &JoinError{Err: ErrProtocol, Detail: "broadcast of a route"}
	}
	*r = mpiRoute{}
	if err := json.Unmarshal(buf[4:4+n], r); err != nil {
		return &JoinError{Err: ErrProtocol, Detail: err.Error()}
	}
	return nil
}
