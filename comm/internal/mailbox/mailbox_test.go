package mailbox

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
)

const body = 16

// open returns the mailboxes of n ranks, whose messages are seen at once.
func open(t testing.TB, n, cells int) ([]*Mailbox, *network) {
	net := newNetwork(n, cells)
	boxes := make([]*Mailbox, n)
	for r := range boxes {
		var err error
		boxes[r], err = New(Config{Rank: r, Ranks: n, Net: end{net, r}, BodyBytes: body})
		require.NoError(t, err)
	}
	return boxes, net
}

// settle makes steps until nothing is left to do.
func settle(t testing.TB, net *network, boxes ...*Mailbox) {
	for moved := true; moved; {
		moved = false
		for _, b := range boxes {
			net.deliverAll()
			news, err := b.Step()
			require.NoError(t, err)
			moved = moved || news
		}
	}
}

func send(b *Mailbox, to, tag int, buf []byte) *Request {
	r := &Request{Peer: to, Tag: tag, Buf: buf, Elem: bytesElem}
	b.Send(r)
	return r
}

func recv(b *Mailbox, from, tag, room int) *Request {
	r := &Request{Peer: from, Tag: tag, Buf: make([]byte, room), Elem: bytesElem}
	b.Recv(r)
	return r
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []Config{{}, {Ranks: 1}, {Ranks: 1, Rank: 1, BodyBytes: 1}, {Ranks: 1, Rank: -1, BodyBytes: 1}} {
		_, err := New(c)
		require.ErrorIs(t, err, transport.ErrBounds)
	}
}

// TestMatchErrors: a message that can't be received fails the receive, and only
// that, however it comes together with it.
func TestMatchErrors(t *testing.T) {
	f32 := Elem{kernels.TypeFloat32, 4}
	for _, c := range []struct {
		name       string
		sent, want Elem
		n, room    int
		err        error
		text       string
	}{
		{"longer", bytesElem, bytesElem, 8, 7, ErrTruncated, "8 uint8 with tag 3"},
		{"no room", f32, f32, 4, 0, ErrTruncated, "1 float32 with tag 3"},
		{"long", bytesElem, bytesElem, 100, 99, ErrTruncated, "100 uint8"},
		{"type", f32, Elem{kernels.TypeInt32, 4}, 8, 8, ErrElem, "2 float32 with tag 3"},
		{"long type", f32, Elem{kernels.TypeInt32, 4}, 80, 80, ErrElem, "20 float32"},
		{"size", Elem{Bytes: 4}, Elem{Bytes: 8}, 8, 8, ErrElem, "2 4-byte elements with tag 3"},
		{"empty", f32, bytesElem, 0, 0, ErrElem, "0 float32"},
	} {
		for _, self := range []bool{false, true} {
			for _, first := range []string{"send", "recv"} {
				t.Run(fmt.Sprintf("%s,self=%v,%s first", c.name, self, first), func(t *testing.T) {
					boxes, net := open(t, 2, 2)
					to := 1
					if self {
						to = 0
					}
					s := &Request{Peer: to, Tag: 3, Buf: make([]byte, c.n), Elem: c.sent}
					for i := range s.Buf {
						s.Buf[i] = 1
					}
					r := &Request{Peer: AnySource, Tag: AnyTag, Buf: make([]byte, c.room), Elem: c.want}
					if first == "send" {
						boxes[0].Send(s)
						settle(t, net, boxes...)
						boxes[to].Recv(r)
					} else {
						boxes[to].Recv(r)
						boxes[0].Send(s)
					}
					settle(t, net, boxes...)
					require.True(t, r.Done())
					require.ErrorIs(t, r.Err, c.err)
					var m *MatchError
					require.ErrorAs(t, r.Err, &m)
					status := Status{Source: 0, Tag: 3, Bytes: c.n}
					require.Equal(t, &MatchError{Status: status, Dest: to, Sent: c.sent, Want: c.want, Room: c.room, Err: c.err}, m)
					require.Equal(t, status, r.Status)
					require.ErrorContains(t, r.Err, "rank 0 sent "+c.text)
					require.ErrorContains(t, r.Err, fmt.Sprintf("rank %d receives up to %d %v", to, c.room/c.want.Bytes, c.want))
					require.Equal(t, make([]byte, c.room), r.Buf)
					require.Zero(t, boxes[to].Outstanding())
					// The next message passes.
					next := recv(boxes[to], 0, 4, 1)
					require.NoError(t, send(boxes[0], to, 4, []byte{9}).Err)
					settle(t, net, boxes...)
					require.NoError(t, next.Err)
					require.Equal(t, []byte{9}, next.Buf)
				})
			}
		}
	}
}

// TestSegmentsTakeTurns: two long messages and a short one that are on the way to
// one rank do not wait for each other.
func TestSegmentsTakeTurns(t *testing.T) {
	boxes, net := open(t, 2, 3)
	var order []string
	short := (*Request)(nil)
	net.onPoll = func(_, to int, msg []byte) {
		if h, _, err := parse(msg); err == nil && to == 1 {
			order = append(order, fmt.Sprintf("%d/%d", h.kind, h.id))
			if len(order) == 8 {
				short = send(boxes[0], 1, 7, []byte("short"))
			}
		}
	}
	var rs []*Request
	for i := range 2 {
		rs = append(rs, recv(boxes[1], 0, i, 20*body), send(boxes[0], 1, i, make([]byte, 20*body)))
	}
	shortRecv := recv(boxes[1], 0, 7, 5)
	settle(t, net, boxes...)
	for _, r := range append(rs, short, shortRecv) {
		require.True(t, r.Done())
		require.NoError(t, r.Err)
	}
	var a, b, at int
	for i, s := range order {
		switch s {
		case fmt.Sprintf("%d/0", data):
			a++
		case fmt.Sprintf("%d/1", data):
			b++
		case fmt.Sprintf("%d/0", eager):
			at = i
		}
		require.LessOrEqual(t, max(a-b, b-a), 3, "after %v", order[:i+1])
	}
	require.Equal(t, 20, a)
	require.Equal(t, 20, b)
	require.Less(t, at, 20, "the short message waited: %v", order)
}

// TestNoStarvation: a long message gets on while short ones are sent without end.
func TestNoStarvation(t *testing.T) {
	boxes, net := open(t, 2, 2)
	long := recv(boxes[1], 0, 1, 20*body)
	send(boxes[0], 1, 1, make([]byte, 20*body))
	for i := 0; !long.Done(); i++ {
		require.Less(t, i, 100)
		for range 4 {
			send(boxes[0], 1, 2, nil)
		}
		net.deliverAll()
		for _, b := range boxes {
			_, err := b.Step()
			require.NoError(t, err)
		}
	}
}

// TestNews: a rank that only sends makes steps for as long as there is room.
func TestNews(t *testing.T) {
	const cells = 100
	boxes, net := open(t, 2, cells)
	for range cells { // fills the lane
		require.True(t, send(boxes[0], 1, 1, nil).Done())
	}
	var waiting []*Request
	for range cells {
		waiting = append(waiting, send(boxes[0], 1, 1, nil))
	}
	settle(t, net, boxes[1])
	for news := true; news; {
		var err error
		news, err = boxes[0].Step()
		require.NoError(t, err)
	}
	for _, r := range waiting {
		require.True(t, r.Done())
	}
}

// TestClearingTwice: what was asked for once is not sent again.
func TestClearingTwice(t *testing.T) {
	boxes, net := open(t, 2, 4)
	r := send(boxes[0], 1, 1, make([]byte, 10*body))
	var hb [HeadBytes]byte
	head{kind: clearing}.put(&hb)
	for i := range 2 {
		_, err := end{net, 1}.TrySend(0, &hb, nil)
		require.NoError(t, err)
		net.deliverAll()
		_, err = boxes[0].Step()
		require.Equal(t, i == 1, err != nil, "%v", err)
	}
	require.False(t, r.Done())
}

// TestNonsense: a peer that does not keep to the protocol is an error, and gets
// nothing written.
func TestNonsense(t *testing.T) {
	for _, c := range []struct {
		name string
		h    head
		n    int
		bad  bool
	}{
		{"a segment", head{kind: data, id: 0}, body, false},
		{"too much", head{kind: data, id: 0}, 2*body + 1, true},
		{"of another rank's message", head{kind: data, id: 1}, 1, true},
		{"of a message that was not asked for yet", head{kind: data, id: 2}, 1, true},
		{"of no message", head{kind: data, id: 3}, 1, true},
		{"of no message, far off", head{kind: data, id: math.MaxUint32}, 1, true},
		{"clearing", head{kind: clearing, id: 0}, 0, false},
		{"clearing of another rank's message", head{kind: clearing, id: 1}, 0, true},
		{"clearing of no message", head{kind: clearing, id: 2}, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			boxes, net := open(t, 3, 2)
			b := boxes[0]
			var rs []*Request
			for p := 1; p <= 2; p++ { // a receive and a send with each
				rs = append(rs, recv(b, p, 1, 5*body), send(b, p, 1, make([]byte, 2*body)))
				send(boxes[p], 0, 1, make([]byte, 2*body))
			}
			for range 2 { // nobody has sent data, and the peers don't
				net.deliverAll()
				_, err := b.Step()
				require.NoError(t, err)
			}
			// A receive that is matched while the lane is full.
			require.True(t, send(b, 1, 1, nil).state == queued)
			recv(b, 1, 2, 5*body)
			msg := func(h head, n int) {
				var hb [HeadBytes]byte
				h.put(&hb)
				text := make([]byte, n)
				for i := range text {
					text[i] = 1
				}
				_, err := end{net, 1}.TrySend(0, &hb, text)
				require.NoError(t, err)
				net.deliverAll()
			}
			msg(head{kind: envelope, elem: bytesElem, tag: 2, bytes: 2 * body}, 0)
			_, err := b.Step()
			require.NoError(t, err)
			msg(c.h, c.n)
			_, err = b.Step()
			require.Equal(t, c.bad, err != nil, "%v", err)
			if c.bad {
				require.Equal(t, make([]byte, 5*body), rs[0].Buf)
			}
		})
	}
}

// TestGone: what a peer sent before it left is received, what needs it fails, and
// nothing goes its way any more.
func TestGone(t *testing.T) {
	left := errors.New("left")
	boxes, net := open(t, 3, 4)
	b := boxes[1]
	long := make([]byte, 3*body)
	transfer := recv(b, 0, 1, len(long)) // its first segment comes
	mid := send(boxes[0], 1, 1, long)
	settle(t, net, boxes[1])
	settle(t, net, boxes[0])
	require.False(t, mid.Done() && transfer.Done())
	send(boxes[0], 1, 3, long)
	fromGone, fromAny, fromOther := recv(b, 0, 9, 1), recv(b, AnySource, 9, 1), recv(b, 2, AnyTag, 1)
	var toGone []*Request
	for i := range 8 { // some find room, others not
		toGone = append(toGone, send(b, 0, 0, make([]byte, i%2*20)))
	}
	// Now rank 0 has left, with messages in all cells.
	lost := 0
	for send(boxes[0], 1, 5, []byte{byte(40 + lost)}).Done() {
		lost++
	}
	net.deliverAll()
	before := len(net.lanes[1][0].sent)
	require.NoError(t, b.Gone(0, left))
	require.NoError(t, b.Gone(0, errors.New("again")))
	require.ErrorIs(t, fromGone.Err, left)
	require.False(t, fromAny.Done())
	require.False(t, fromOther.Done())
	for _, r := range toGone {
		require.True(t, r.Done())
	}
	require.ErrorIs(t, toGone[7].Err, left)
	for i := range lost {
		r := recv(b, 0, 5, 1)
		require.NoError(t, r.Err)
		require.Equal(t, []byte{byte(40 + i)}, r.Buf)
	}
	for _, tag := range []int{5, 3, AnyTag} { // 3 was offered, or never came
		require.ErrorIs(t, recv(b, 0, tag, len(long)).Err, left)
	}
	require.ErrorIs(t, send(b, 0, 0, nil).Err, left)
	settle(t, net, b)
	require.Len(t, net.lanes[1][0].sent, before)

	require.NoError(t, b.Gone(2, errors.New("left too")))
	require.EqualError(t, fromAny.Err, "left too")
	require.EqualError(t, fromOther.Err, "left too")
	require.Zero(t, b.Outstanding())
	// To itself it can still send.
	self := recv(b, 1, 1, 1)
	require.NoError(t, send(b, 1, 1, []byte{1}).Err)
	require.True(t, self.Done())
	require.NoError(t, self.Err)
	// And from then on it may be the one that a receive waits for.
	self = recv(b, AnySource, 1, 1)
	require.False(t, self.Done())
	require.NoError(t, send(b, 1, 1, []byte{1}).Err)
	require.NoError(t, self.Err)
}

// TestFailAnywhere ends everything at any moment of random traffic: every request
// is done once, whole or with the error.
func TestFailAnywhere(t *testing.T) {
	boom := errors.New("boom")
	eachSeed(t, 500, func(t *testing.T, rng *rand.Rand) {
		const n = 3
		boxes, net := open(t, n, 2)
		done := map[*Request]int{}
		for _, b := range boxes {
			b.onDone = func(r *Request) { done[r]++ }
		}
		var all []*Request
		const most = 4 * body
		for range rng.IntN(60) {
			rank := rng.IntN(n)
			switch rng.IntN(4) {
			case 0:
				all = append(all, send(boxes[rank], rng.IntN(n), rng.IntN(2), payload(name{1, 2}, rng.IntN(most))))
			case 1:
				all = append(all, recv(boxes[rank], rng.IntN(n+1)-1, rng.IntN(3)-1, most))
			case 2:
				net.deliver(rng.IntN(n), rng.IntN(n))
			default:
				_, err := boxes[rank].Step()
				require.NoError(t, err)
			}
		}
		gone := rng.IntN(2) == 0
		for _, b := range boxes {
			if gone { // first one by one
				for p := range n {
					require.NoError(t, b.Gone(p, boom))
				}
			}
			b.Fail(boom)
			b.Fail(errors.New("again"))
			require.Zero(t, b.Outstanding())
			_, err := b.Step()
			require.Equal(t, boom, err)
			for p := range n {
				r := send(b, p, 0, nil)
				require.Equal(t, boom, r.Err)
				all = append(all, r)
			}
			for {
				r := recv(b, AnySource, AnyTag, most)
				all = append(all, r)
				if r.Err != nil {
					require.Equal(t, boom, r.Err)
					if r.Status == (Status{}) {
						break
					}
				}
				if len(all) > 1000 {
					require.Fail(t, "receives without end")
				}
			}
		}
		for _, r := range all {
			require.Equal(t, 1, done[r])
			if r.Err == nil {
				continue
			}
			require.Equal(t, boom, r.Err)
		}
	})
}

// broken is a network that fails.
type broken struct {
	end
	err error
}

func (b *broken) TrySend(peer int, h *[HeadBytes]byte, body []byte) (bool, error) {
	if b.err != nil {
		return false, b.err
	}
	return b.end.TrySend(peer, h, body)
}

func (b *broken) Release(peer int) error {
	if b.err != nil {
		return b.err
	}
	return b.end.Release(peer)
}

func TestBrokenNetwork(t *testing.T) {
	boom := errors.New("boom")
	net := newNetwork(2, 1)
	broken := &broken{end: end{net, 0}}
	b, err := New(Config{Rank: 0, Ranks: 2, Net: broken, BodyBytes: body})
	require.NoError(t, err)
	require.True(t, send(b, 1, 1, nil).Done())
	waiting := send(b, 1, 1, nil)
	require.False(t, waiting.Done())
	broken.err = boom
	_, err = b.Step()
	require.ErrorIs(t, err, boom)
	require.False(t, waiting.Done(), "that is for whoever makes the steps")
	r := send(b, 1, 1, nil)
	require.ErrorIs(t, r.Err, boom)
	require.ErrorIs(t, waiting.Err, boom)
	require.Zero(t, b.Outstanding())

	broken.err = nil
	b, err = New(Config{Rank: 0, Ranks: 2, Net: broken, BodyBytes: body})
	require.NoError(t, err)
	_, err = end{net, 1}.TrySend(0, &[HeadBytes]byte{byte(data)}, []byte("x"))
	require.NoError(t, err)
	net.deliverAll()
	_, err = b.Step()
	require.ErrorContains(t, err, "from rank 1: 1 bytes of message 0, which was not asked for")
}

func TestHead(t *testing.T) {
	for _, h := range []head{
		{kind: eager, elem: bytesElem, tag: 5},
		{kind: envelope, elem: Elem{kernels.TypeFloat64, 8}, tag: MaxTag, bytes: math.MaxInt &^ 7, id: math.MaxUint32},
		{kind: envelope, elem: Elem{Bytes: math.MaxInt32}, bytes: math.MaxInt32, id: 7},
		{kind: clearing, id: 0x01020304, answer: 0x05060708},
	} {
		var b [HeadBytes]byte
		h.put(&b)
		got, body, err := parse(b[:])
		require.NoError(t, err)
		require.Equal(t, h, got)
		require.Empty(t, body)
	}
}

// FuzzParse: what a peer sends is an error or what put makes.
func FuzzParse(f *testing.F) {
	for _, h := range []head{{kind: eager, elem: bytesElem, tag: 5, bytes: 3}, {kind: envelope, elem: bytesElem, bytes: 77}, {kind: clearing, id: 3, answer: 4}, {kind: data, id: 9}, {kind: 9}} {
		var b [HeadBytes]byte
		h.put(&b)
		f.Add(b[:])
		f.Add(append(b[:], "abc"...))
	}
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, msg []byte) {
		h, body, err := parse(msg)
		if err != nil {
			return
		}
		var b [HeadBytes]byte
		h.put(&b)
		again, _, err := parse(append(b[:], body...))
		require.NoError(t, err)
		require.Equal(t, h, again)
	})
}

// FuzzPeer lets a peer write anything: a mailbox does not panic, and does not
// write where it should not.
func FuzzPeer(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add([]byte{4, 0, 0, 4, 0, 1, 4, 1, 0, 3, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		boxes, net := open(t, 2, 8)
		b := boxes[0]
		buf := make([]byte, 4*body)
		r := &Request{Peer: 1, Tag: 1, Buf: buf[body : 3*body : 3*body], Elem: bytesElem}
		b.Recv(r)
		send(b, 1, 1, make([]byte, 3*body))
		for len(script) >= 3 {
			h := head{kind: kind(script[0] % 6), elem: bytesElem, tag: 1, id: uint32(script[1] % 3), answer: uint32(script[2] % 3)}
			var text []byte
			switch h.kind {
			case eager:
				h.bytes = int(script[2] % body)
				text = make([]byte, h.bytes)
			case envelope:
				h.bytes = int(script[2])
			case data:
				text = make([]byte, script[2]%body)
			}
			for i := range text {
				text[i] = 1
			}
			script = script[3:]
			var hb [HeadBytes]byte
			h.put(&hb)
			if _, err := (end{net, 1}).TrySend(0, &hb, text); err != nil {
				t.Fatal(err)
			}
			net.deliverAll()
			net.lanes[0][1] = lane{} // the peer has read all
			if _, err := b.Step(); err != nil {
				break
			}
		}
		b.Fail(errors.New("end"))
		require.Zero(t, b.Outstanding())
		require.Equal(t, make([]byte, body), buf[:body])
		require.Equal(t, make([]byte, body), buf[3*body:])
	})
}

// ring is a network that takes no memory.
type ring struct {
	rank, other  *[4][HeadBytes + body]byte
	n            *[2][4]int
	sent, polled *[2]uint64
	me           int
}

func (r ring) TrySend(_ int, h *[HeadBytes]byte, b []byte) (bool, error) {
	if r.sent[r.me]-r.polled[1-r.me] == 4 {
		return false, nil
	}
	i := r.sent[r.me] % 4
	copy(r.other[i][:], h[:])
	r.n[r.me][i] = HeadBytes + copy(r.other[i][HeadBytes:], b)
	r.sent[r.me]++
	return true, nil
}

func (r ring) Poll(int) ([]byte, bool, error) {
	i := r.polled[r.me]
	if i == r.sent[1-r.me] {
		return nil, false, nil
	}
	r.polled[r.me]++
	return r.rank[i%4][:r.n[1-r.me][i%4]], true, nil
}

func (r ring) Release(int) error { return nil }

// TestAllocatesNothing: matched messages of any length take no memory, and
// neither do unexpected ones if there are not too many.
func TestAllocatesNothing(t *testing.T) {
	for _, n := range []int{0, body, 10 * body} {
		for _, unexpected := range []bool{false, true} {
			var slots [2][4][HeadBytes + body]byte
			var lens [2][4]int
			var sent, polled [2]uint64
			boxes := make([]*Mailbox, 2)
			for r := range boxes {
				var err error
				net := ring{&slots[r], &slots[1-r], &lens, &sent, &polled, r}
				boxes[r], err = New(Config{Rank: r, Ranks: 2, Net: net, BodyBytes: body})
				require.NoError(t, err)
			}
			var s, r Request
			from, to := make([]byte, n), make([]byte, n)
			require.Zero(t, testing.AllocsPerRun(100, func() {
				s = Request{Peer: 1, Tag: 1, Buf: from, Elem: bytesElem}
				r = Request{Peer: 0, Tag: 1, Buf: to, Elem: bytesElem}
				boxes[0].Send(&s)
				if unexpected {
					if _, err := boxes[1].Step(); err != nil {
						t.Fail()
					}
				}
				boxes[1].Recv(&r)
				for !s.Done() || !r.Done() {
					for _, b := range boxes {
						if _, err := b.Step(); err != nil {
							t.Fail()
						}
					}
				}
			}), "%d bytes, unexpected=%v", n, unexpected)
		}
	}
}
