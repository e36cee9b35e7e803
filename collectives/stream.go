package collectives

import (
	"errors"
	"fmt"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/transport/progress"
)

// Calls whose blocks have different lengths have no plan: in some of them no rank
// knows all lengths. Every block goes to its receiver directly, in messages as large
// as a cell holds, in rounds: in each, a rank first sends the next message of every
// block, then receives one of every block that it expects. As in the pipeline of a
// plan, there is an interleaving in which all lanes are empty between rounds, so
// nobody waits for ever.
//
// Where a block's length is known to its sender and its receiver only, it is salted
// into the signature of their messages, and a block without elements is one empty
// message. Where all ranks know all lengths, it is no message.

// A span is a part of a slice, in bytes. n is −1 where there is no block.
type span struct{ at, n int }

var none = span{n: -1}

// A stream is what one rank sends and receives.
type stream struct {
	out, in []span // by rank, this one included; of src and of dst
	pairs   bool   // lengths are for two ranks to agree on
	reduces bool   // what comes is combined, all blocks of in being the same
	unit    int    // bytes of an element
	chunk   int    // bytes of a message at most
}

// plan says what a call moves.
func (s *stream) plan(o *operation, me int) {
	for p := range s.out {
		s.out[p], s.in[p] = none, none
	}
	s.pairs, s.reduces, s.unit = true, false, elemBytes(o.call)
	unit, root := s.unit, o.call.Root
	switch o.call.Collective {
	case comm.OpAllToAllV:
		divide(s.out, o.srcCounts, unit)
		divide(s.in, o.dstCounts, unit)
	case comm.OpAllGatherV:
		s.pairs = false
		for p := range s.out {
			s.out[p] = span{0, len(o.src)}
		}
		divide(s.in, o.dstCounts, unit)
	case comm.OpReduceScatter:
		s.pairs, s.reduces = false, true
		divide(s.out, o.srcCounts, unit)
		for p := range s.in {
			s.in[p] = span{0, s.out[me].n}
		}
	case comm.OpGatherV:
		if me == root {
			divide(s.in, o.dstCounts, unit)
		}
		s.out[root] = span{0, len(o.src)}
	case comm.OpScatterV:
		if me == root {
			divide(s.out, o.srcCounts, unit)
		}
		s.in[root] = span{0, len(o.dst)}
	}
}

// divide sets blocks of counts elements, one after the other.
func divide(spans []span, counts []int, unit int) {
	at := 0
	for p, n := range counts {
		spans[p] = span{at, n * unit}
		at += n * unit
	}
}

// messages is the number of messages of a block.
func (s *stream) messages(b span) int {
	if s.pairs && b.n == 0 {
		return 1
	}
	return max(0, (b.n+s.chunk-1)/s.chunk)
}

// message is the range of a block's message.
func (s *stream) message(b span, i int) (from, to int) {
	return b.at + i*s.chunk, b.at + min((i+1)*s.chunk, b.n)
}

// stream does a call without a plan.
func (r *runner) stream(o *operation, dst []byte) error {
	s, me := &r.flow, r.e.Rank()
	if err := r.lanedOver(); err != nil {
		return err
	}
	if s.out == nil {
		s.out, s.in = make([]span, r.ranks), make([]span, r.ranks)
	}
	unit := unitBytes(o.call)
	s.chunk = r.messageBytes / unit * unit
	s.plan(o, me)
	rounds := 0
	for p := range s.out {
		if p == me {
			continue
		}
		rounds = max(rounds, s.messages(s.out[p]), s.messages(s.in[p]))
		if s.pairs {
			r.e.Salt(p, salt(s.out[p].n), salt(s.in[p].n))
		}
	}
	if own := s.out[me]; !s.reduces && own.n > 0 && s.in[me].n > 0 {
		copy(dst[s.in[me].at:][:own.n], o.src[own.at:][:own.n])
	}
	if s.reduces && r.ranks == 1 {
		return r.x.reduce(dst, append(r.x.srcs[:0], o.src), true, 1)
	}
	for i := range rounds {
		if err := r.sendRound(o.src, i); err != nil {
			return err
		}
		var err error
		if s.reduces {
			err = r.reduceRound(dst, o.src, i)
		} else {
			err = r.receiveRound(dst, i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// salt hashes the length of a block, which may be −1.
func salt(n int) uint32 {
	h := uint64(n+2) * 0x9e3779b97f4a7c15
	return uint32(h >> 32)
}

// sendRound sends message i of every block, beginning with that of the next
// rank, so that not all ranks write to one at the same time.
func (r *runner) sendRound(src []byte, i int) error {
	s, me := &r.flow, r.e.Rank()
	for k := 1; k < r.ranks; k++ {
		p := (me + k) % r.ranks
		if i >= s.messages(s.out[p]) {
			continue
		}
		from, to := s.message(s.out[p], i)
		if err := r.e.Send(p, src[from:to]); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) receiveRound(dst []byte, i int) error {
	s, me := &r.flow, r.e.Rank()
	for k := 1; k < r.ranks; k++ {
		p := (me + r.ranks - k) % r.ranks
		if i >= s.messages(s.in[p]) {
			continue
		}
		from, to := s.message(s.in[p], i)
		got, err := r.receive(p, to-from)
		if err != nil {
			return err
		}
		copy(dst[from:to], got)
		if err := r.e.Release(p); err != nil {
			return err
		}
	}
	return nil
}

// reduceRound receives message i of all ranks and combines them, in rank order,
// with that part of this rank's own block.
func (r *runner) reduceRound(dst, src []byte, i int) error {
	s, me := &r.flow, r.e.Rank()
	if i >= s.messages(s.in[me]) {
		return nil
	}
	from, to := s.message(s.in[me], i)
	for k := 1; k < r.ranks; k++ {
		p := (me + r.ranks - k) % r.ranks
		var err error
		if r.x.inbox[p], err = r.receive(p, to-from); err != nil {
			return err
		}
	}
	srcs := r.x.srcs[:0]
	for p := range r.ranks {
		if p == me {
			srcs = append(srcs, src[s.out[me].at:][from:to])
		} else {
			srcs = append(srcs, r.x.inbox[p])
		}
	}
	r.x.srcs = srcs
	if err := r.x.reduce(dst[from:to], srcs, true, r.ranks); err != nil {
		return err
	}
	for p := range r.ranks {
		if p != me {
			r.x.inbox[p] = nil
			if err := r.e.Release(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// receive waits for a message, and says what was expected if it is another one.
func (r *runner) receive(peer, n int) ([]byte, error) {
	got, err := r.e.Recv(peer, n)
	if err != nil {
		var mismatch *progress.MismatchError // allocated
		if s := &r.flow; s.pairs && errors.As(err, &mismatch) && mismatch.Note == "" {
			mismatch.Note = fmt.Sprintf("rank %d expects %d elements from rank %d", r.e.Rank(), s.in[peer].n/s.unit, peer)
		}
	}
	return got, err
}
