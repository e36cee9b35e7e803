package comm

import "fmt"

// Members are the calls that a Group makes, as ranks compare them and tell each
// other of them. Sends and receives, which are not the same on all ranks, are not
// among them.
type Members struct {
	first   []Call // as many as are told
	calls   [2]Call
	settled int // 1: see Settle
}

// maxTold bounds the calls of a Group that a rank tells of.
const maxTold = 64

// digestSettled is the bit of a Group's digest that says that it is settled.
const digestSettled = 2

// NewMembers returns the members of a Group of n calls.
func NewMembers(n int, call func(i int) Call) *Members {
	m := &Members{first: make([]Call, 0, min(n, maxTold))}
	h := uint64(n)
	for i := range n {
		c := call(i)
		h = (h ^ uint64(c.signature(c.pack(0)))) * 0x9e3779b97f4a7c15
		h ^= h >> 32
		if i < maxTold {
			m.first = append(m.first, c)
		}
	}
	m.calls[0] = Call{Collective: OpGroup, Count: n, Digest: uint32(h)&^digestSettled | 1}
	m.calls[1] = m.calls[0]
	m.calls[1].Digest |= digestSettled
	return m
}

// Settle makes something else a thing that all ranks must have in common: that
// they know how to make the calls without asking each other. It comes before
// BeginGroup, or while the Group runs, and then counts from the next time on.
func (m *Members) Settle() { m.settled = 1 }

// Call describes the Group.
func (m *Members) Call() Call { return m.calls[m.settled] }

// A toldCall is what a rank tells of a call that it made.
type toldCall struct {
	Call
	Members []Call `json:",omitempty"` // of a Group, the first ones
}

// told returns call number seq if it is still there, with its members.
func (l *callLog) told(seq uint64) (toldCall, bool) {
	c, ok := l.load(seq)
	t := toldCall{Call: c}
	// Members are stored before the call is, so they may be those of a later Group.
	if m := l[seq%uint64(len(l))].members.Load(); ok && c.Collective == OpGroup && m != nil && (c == m.calls[0] || c == m.calls[1]) {
		t.Members = m.first
	}
	return t, ok
}

// lastTold returns the calls that are remembered, by number. It has the members
// of the latest Groups only, so that it fits a message.
func (l *callLog) lastTold(last uint64) map[uint64]toldCall {
	calls, members := map[uint64]toldCall{}, 0
	for seq := last; seq >= l.first(last); seq-- {
		c, ok := l.told(seq)
		if !ok {
			continue
		}
		if members += len(c.Members); members > maxTold {
			c.Members = nil
		}
		calls[seq] = c
	}
	return calls
}

// describe describes two calls that were given the number seq on two ranks and
// don't agree: two Groups by the first call in which they differ, counted from 1.
func describe(a, b toldCall, seq uint64) (string, string) {
	if a.Collective != OpGroup || b.Collective != OpGroup {
		return a.numbered(seq), b.numbered(seq)
	}
	for i := 0; i < len(a.Members) || i < len(b.Members); i++ {
		if i < len(a.Members) && i < len(b.Members) && a.Members[i].agrees(b.Members[i]) {
			continue
		}
		x, knowsX := a.member(i, seq)
		y, knowsY := b.member(i, seq)
		if knowsX && knowsY {
			return x, y
		}
		break
	}
	return a.numbered(seq), b.numbered(seq)
}

// member describes call i of a Group, if it is known or known not to be.
func (t *toldCall) member(i int, seq uint64) (string, bool) {
	switch {
	case i < len(t.Members):
		return fmt.Sprintf("%v #%d call %d: %v", t.Collective, seq, i+1, t.Members[i]), true
	case i >= t.Count:
		return fmt.Sprintf("%v #%d has %d calls", t.Collective, seq, t.Count), true
	}
	return "", false
}
