package comm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/weft-go/weft/comm/bootstrap"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/progress"
)

// exchanges are the all-gathers of a communicator over the control channel.
// All ranks make them in the same order, so they are numbered.
type exchanges struct {
	mu     sync.Mutex
	next   uint64 // number of this rank's next exchange
	rounds map[uint64]*round
	closed bool
}

// A round is one exchange: what the others gave.
type round struct {
	parts []bootstrap.Message
	have  []bool
	n     int
	done  chan struct{} // closed when all are there
}

// exchangeHeader is the length of what stands before the data of a message:
// number and history of the call that it belongs to.
const exchangeHeader = 12

func (x *exchanges) round(number uint64, ranks int) *round {
	if x.rounds == nil {
		x.rounds = map[uint64]*round{}
	}
	r := x.rounds[number]
	if r == nil {
		r = &round{parts: make([]bootstrap.Message, ranks), have: make([]bool, ranks), done: make(chan struct{})}
		x.rounds[number] = r
	}
	return r
}

// put takes a peer's part.
func (x *exchanges) put(c *Communicator, rank int, m bootstrap.Message) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed || m.Seq < x.next && x.rounds[m.Seq] == nil || len(m.Data) < exchangeHeader {
		closeFiles(m)
		return
	}
	r := x.round(m.Seq, c.Size())
	if r.have[rank] {
		closeFiles(m)
		return
	}
	r.have[rank] = true
	r.parts[rank] = m
	if r.n++; r.n == c.Size()-1 {
		close(r.done)
	}
}

// drop closes what came and was not fetched.
func (x *exchanges) drop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	for _, r := range x.rounds {
		for _, m := range r.parts {
			closeFiles(m)
		}
	}
	x.rounds = nil
}

// exchange gives m to all other ranks and returns what all gave, in rank order;
// this rank's own part is m. It is an all-gather of Data, Files and Ref, for
// set-up. The caller owns the Files it gets.
func (c *Communicator) exchange(ctx context.Context, m bootstrap.Message) ([]bootstrap.Message, error) {
	var seq uint64
	var sig uint32
	if s := callState(c.state.Load()); s.running() {
		seq, sig = s.seq(), c.history
	}
	own := m
	m.Data = make([]byte, exchangeHeader, exchangeHeader+len(m.Data))
	binary.LittleEndian.PutUint64(m.Data, seq)
	binary.LittleEndian.PutUint32(m.Data[8:], sig)
	m.Data = append(m.Data, own.Data...)
	m.Kind = msgExchange

	x := &c.xchg
	x.mu.Lock()
	m.Seq = x.next
	x.next++
	r := x.round(m.Seq, c.Size())
	r.parts[c.rank], r.have[c.rank] = own, true
	x.mu.Unlock()
	for p := range c.members {
		if p != c.rank {
			err := c.send(p, m)
			if err != nil && !errors.Is(err, bootstrap.ErrGone) && !errors.Is(err, bootstrap.ErrChannelClosed) {
				return nil, err // the end of a peer is noticed elsewhere
			}
		}
	}
	if c.Size() > 1 {
		if err := c.await(ctx, r.done, r.missing(c)); err != nil {
			return nil, err
		}
	}
	x.mu.Lock()
	delete(x.rounds, m.Seq)
	x.mu.Unlock()

	for p := range r.parts {
		if p == c.rank {
			continue
		}
		theirs := progress.Tag{Seq: uint32(binary.LittleEndian.Uint64(r.parts[p].Data)), Signature: binary.LittleEndian.Uint32(r.parts[p].Data[8:])}
		ours := progress.Tag{Seq: uint32(seq), Signature: sig}
		if theirs != ours {
			for _, m := range r.parts {
				closeFiles(m)
			}
			return nil, &progress.MismatchError{Peer: p, Got: theirs, Want: ours}
		}
		r.parts[p].Data = r.parts[p].Data[exchangeHeader:]
	}
	return r.parts, nil
}

// mailEvery is how often a rank that waits in an exchange looks for messages.
const mailEvery = 5 * time.Millisecond

// missing returns a function that says which rank's part of a round is not there.
func (r *round) missing(c *Communicator) func() int {
	return func() int {
		c.xchg.mu.Lock()
		defer c.xchg.mu.Unlock()
		if p := slices.Index(r.have, false); p >= 0 {
			return p
		}
		return c.rank
	}
}

// deadline is when the waits of this rank's call, or of making the communicator, end.
// All of them together have the timeout.
func (c *Communicator) deadline() time.Time {
	switch {
	case callState(c.state.Load()).running():
		return c.engine.Deadline()
	case c.madeBy.IsZero():
		return time.Now().Add(c.timeout)
	}
	return c.madeBy
}

// await waits until done is closed, which holds missing up.
func (c *Communicator) await(ctx context.Context, done <-chan struct{}, missing func() int) error {
	timeout := time.NewTimer(time.Until(c.deadline()))
	defer timeout.Stop()
	stall := time.NewTicker(progress.StallAfter)
	defer stall.Stop()
	mail := time.NewTicker(mailEvery)
	defer mail.Stop()
	for {
		var err error
		select {
		case <-done:
			return nil
		case <-c.stop.Done():
			err = c.stop.Err()
		case <-ctx.Done():
			err = &progress.WaitError{Peer: missing(), Err: ctx.Err()}
		case <-timeout.C:
			err = &progress.WaitError{Peer: missing(), Err: fmt.Errorf("%w after %v", context.DeadlineExceeded, c.timeout)}
		case <-stall.C:
			c.onStall(missing())
		case <-mail.C:
			if c.messages != nil {
				c.messages.idle() // a peer may be held up by a message to this rank
			}
		}
		if err == nil {
			continue
		}
		select {
		case <-done: // before that, or while this process was stopped
			return nil
		default:
			return err
		}
	}
}

// exchangeExports is the [transport.Exchange] of this communicator.
func (c *Communicator) exchangeExports(ctx context.Context, mine transport.Exported) ([]transport.Exported, error) {
	m := bootstrap.Message{Data: mine.Handle[:], Ref: mine.Ref}
	if mine.File != nil {
		m.Files = []*os.File{mine.File}
	}
	all, err := c.exchange(ctx, m)
	if err != nil {
		return nil, err
	}
	out := make([]transport.Exported, len(all))
	for p, m := range all {
		if p == c.rank {
			out[p].Handle, out[p].Ref = mine.Handle, mine.Ref // its file the caller has, and closes
			continue
		}
		out[p].Ref = m.Ref
		for i, f := range m.Files {
			if i == 0 {
				out[p].File = f
			} else {
				f.Close()
			}
		}
		if copy(out[p].Handle[:], m.Data) != transport.HandleBytes || len(m.Data) != transport.HandleBytes {
			err = fmt.Errorf("rank %d: %w: %d bytes", p, transport.ErrHandle, len(m.Data))
		}
	}
	if err != nil {
		for _, x := range out {
			x.Close()
		}
		return nil, err
	}
	return out, nil
}

// agree makes a failure of one rank a failure of all: it returns nil when all
// ranks gave nil, and otherwise an error that names the first that did not. errors.Is finds
// in it what agreedKinds has of any rank's failure.
func (c *Communicator) agree(ctx context.Context, err error) error {
	var mine []byte // of no failure nothing, else the kinds and what it says
	if err != nil {
		text := err.Error()
		mine = append([]byte{kindsOf(err)}, text[:min(len(text), maxDetail)]...)
	}
	all, xerr := c.exchange(ctx, bootstrap.Message{Data: mine})
	if xerr != nil {
		return xerr
	}
	var kinds byte
	first := -1
	for p, m := range all {
		if len(m.Data) > 0 {
			kinds |= m.Data[0]
			if first < 0 {
				first = p
			}
		}
	}
	switch {
	case err != nil:
		err = fmt.Errorf("rank %d: %w", c.rank, err)
	case first >= 0:
		err = fmt.Errorf("rank %d: %s", first, all[first].Data[1:])
	default:
		return nil
	}
	return &refusal{err, kinds}
}

// agreedKinds are the errors of one rank that programs look for on all, each a bit on the wire.
var agreedKinds = [...]error{ErrArgument, ErrUnreachable, ErrNoDevice}

func kindsOf(err error) (kinds byte) {
	for i, kind := range agreedKinds {
		if errors.Is(err, kind) {
			kinds |= 1 << i
		}
	}
	return kinds
}

// A refusal is an error of a call that all ranks know of: the communicator
// stays usable.
type refusal struct {
	error
	kinds byte // of all ranks' errors
}

func (r *refusal) Unwrap() error { return r.error }

func (r *refusal) Is(target error) bool {
	for i, kind := range agreedKinds {
		if target == kind && r.kinds>>i&1 != 0 {
			return true
		}
	}
	return false
}
