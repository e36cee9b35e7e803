// Package model explores all interleavings of a small system, breadth first, so
// that what it finds it finds by a shortest run.
package model

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"strings"
)

// A System is what is explored. S is a state, copied by assignment.
type System[S any] struct {
	Start S
	// Next adds the moves of a state. It must not depend on anything else, nor
	// change the state.
	Next func(s *S, m *Moves[S])
	// Final says that nothing remains to be done in a state.
	Final func(s *S) bool
	// Append encodes a state, Parse decodes it: the code holds all of it, and equal
	// states have equal codes.
	Append func(b []byte, s *S) []byte
	Parse  func(b []byte, s *S)
	// Most is the number of states after which to give up; 0 for no bound.
	Most int
}

// A Label says what happens in a move: a format and what it formats.
type Label struct {
	Text string
	Args [5]int
}

func (l Label) String() string {
	args := make([]any, strings.Count(l.Text, "%"))
	for i := range args {
		args[i] = l.Args[i]
	}
	return fmt.Sprintf(l.Text, args...)
}

// Moves collects the moves of one state.
type Moves[S any] struct {
	from  *S
	moves []move[S]
}

type move[S any] struct {
	to    S
	label Label
	late  bool
	wrong string
}

// To adds a move and returns the state after it, at first equal to the one
// before, to be changed before the next To. A late move is one that may as well
// never happen.
func (m *Moves[S]) To(late bool, text string, args ...int) *S {
	m.moves = append(m.moves, move[S]{to: *m.from, late: late})
	last := &m.moves[len(m.moves)-1]
	last.label.Text = text
	copy(last.label.Args[:], args)
	return &last.to
}

// Wrong says that what must not happen has happened in the last move.
func (m *Moves[S]) Wrong(what string) { m.moves[len(m.moves)-1].wrong = what }

// Outcome is what an exploration found.
type Outcome uint8

const (
	// OK: nothing wrong is possible, and no state is stuck.
	OK Outcome = iota
	// Wrong: something is wrong at the end of the trace.
	Wrong
	// Hang: at the end of the trace nothing can happen but what may as well not,
	// and something remains to be done.
	Hang
	// Unfinished: there were more states than Most.
	Unfinished
)

func (o Outcome) String() string { return [...]string{"ok", "wrong", "hang", "unfinished"}[o] }

// A Result is what an exploration found, and the shortest run that leads there.
type Result struct {
	Outcome Outcome
	States  int
	What    string
	Trace   []string
}

func (r Result) String() string {
	return fmt.Sprintf("%v, %d states %s\n    %s", r.Outcome, r.States, r.What, strings.Join(r.Trace, "\n    "))
}

// origin is how a state was first reached: by the n-th move of another.
type origin struct {
	from int32
	n    uint16
}

// Explore visits all states.
func (sys *System[S]) Explore() Result {
	// States are known by 128 bits of hash; their codes are kept while they are in
	// the queue only, and traces are found by repeating the moves.
	seeds := [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	known := map[[2]uint64]struct{}{}
	origins := []origin{{-1, 0}}
	var queue, later []byte // codes, each behind its length
	var code []byte
	push := func(s *S) bool {
		code = sys.Append(code[:0], s)
		key := [2]uint64{maphash.Bytes(seeds[0], code), maphash.Bytes(seeds[1], code)}
		if _, ok := known[key]; ok {
			return false
		}
		known[key] = struct{}{}
		later = binary.AppendUvarint(later, uint64(len(code)))
		later = append(later, code...)
		return true
	}
	push(&sys.Start)
	var s S
	m := Moves[S]{from: &s}
	for at := int32(0); len(later) > 0; {
		queue, later = later, queue[:0]
		for b := queue; len(b) > 0; at++ {
			n, used := binary.Uvarint(b)
			sys.Parse(b[used:used+int(n)], &s)
			b = b[used+int(n):]
			m.moves = m.moves[:0]
			sys.Next(&s, &m)
			live := false
			for i := range m.moves {
				to := &m.moves[i]
				if to.wrong != "" {
					return Result{Wrong, len(origins), to.wrong, append(sys.trace(origins, at), to.label.String())}
				}
				live = live || !to.late
				if push(&to.to) {
					origins = append(origins, origin{at, uint16(i)})
				}
			}
			if !live && !sys.Final(&s) {
				return Result{Hang, len(origins), "", sys.trace(origins, at)}
			}
		}
		if sys.Most > 0 && len(origins) > sys.Most {
			return Result{Outcome: Unfinished, States: len(origins)}
		}
	}
	return Result{Outcome: OK, States: len(origins)}
}

// trace repeats the moves that lead to a state.
func (sys *System[S]) trace(origins []origin, at int32) []string {
	var turns []uint16
	for ; at > 0; at = origins[at].from {
		turns = append(turns, origins[at].n)
	}
	var s S
	sys.Parse(sys.Append(nil, &sys.Start), &s)
	var labels []string
	for i := len(turns) - 1; i >= 0; i-- {
		m := Moves[S]{from: &s}
		sys.Next(&s, &m)
		move := &m.moves[turns[i]]
		labels = append(labels, move.label.String())
		sys.Parse(sys.Append(nil, &move.to), &s)
	}
	return labels
}
