package progress

import (
	"sync/atomic"
	"unsafe"

	"github.com/weft-go/weft/internal/release"
	"github.com/weft-go/weft/transport"
)

// Shorts are messages of a few bytes between two ranks, in peers' memory that is
// mapped: no completion, no cell, no counter. A message lies in a slot that only its
// sender writes, of lines of 64 bytes:
//
//	word: number of the message << 24 | low bits of the call's signature
//	head: the payload, if it has 56 bytes at most
//	body: else the payload, in lines of its own
//
// The word is stored last, and the message is there when its word is. Up to 56 bytes it
// travels in one line. Longer ones fill whole lines, which processors write without
// fetching them first, and which come all at once: with a word in each they would come
// one by one.
//
// Messages are given in exchanges. In each, a rank gives at most one to each peer, and
// then takes those that the peers give to it. All ranks agree on the exchanges of a call,
// and on who gives to whom in each.
//
// A rank's memory has a ring of slots for each peer. A slot is used again when its reader
// is done with the message in it. The writer knows that from a message that it takes from
// that reader: the reader gave it in an exchange that it began after it had ended those
// before. Only a rank that takes several without giving any says so by a word of its own,
// after every second: so the first of them, in Broadcasts say, may be ahead by a ring.
type shorts struct {
	number uint64 // of the current exchange
	peers  []shortPeer
	base   uint64 // of the engine's memory
	err    error  // why the current exchange failed
	rung   bool   // in it, the peers were woken if they slept
	behind bool   // some peer is to be told what was taken
	again  bool   // the next is most likely such a one: lines go both ways
	fence  atomic.Uint32
}

// shortPeer is this rank's end of both rings with a peer.
type shortPeer struct {
	out, in *shortRow // in the peer's memory, and in this rank's; nil at this rank
	waker   transport.Waker

	sent  uint64 // messages given to the peer
	heard uint64 // of them those that it is done with, as far as this rank knows
	last  uint64 // the exchange of the last of them
	taken uint64 // messages taken from the peer
	owed  uint64 // of them those that it doesn't know to be done with
}

// shortRow is what a rank's memory has for one peer, which writes it.
type shortRow struct {
	done  atomic.Uint64 // the messages to the peer that it is done with, when it says so
	_     [transport.CounterAlign - 8]byte
	slots [shortSlots]shortSlot
}

type shortSlot struct {
	word atomic.Uint64
	head [shortLine - 8]byte
	body [ShortBytes]byte
}

const (
	shortLine  = 64
	shortSlots = 4 // of a ring
	shortOwed  = shortSlots / 2
	shortBytes = uint64(unsafe.Sizeof(shortRow{}))

	shortSignatureBits = 24
	shortSignature     = 1<<shortSignatureBits - 1

	// ShortBytes is the largest payload of a short.
	ShortBytes = 4 << 10
	_          = -(shortBytes % transport.CounterAlign) // rows keep what follows aligned

	// ShortRanks is up to how many ranks there are shorts.
	ShortRanks = 16
)

// openShorts makes the engine's shorts, if the peers' memory is mapped.
func (e *Engine) openShorts() error {
	m, ok := e.t.(transport.Mapper)
	if !ok || e.faulty || e.layout.shortRows() == 0 {
		return nil
	}
	s := &shorts{base: e.layout.shorts(), peers: make([]shortPeer, e.layout.Ranks)}
	row := func(b []byte) *shortRow { return (*shortRow)(unsafe.Pointer(unsafe.SliceData(b[:shortBytes]))) }
	for i, p := range e.peers {
		if p == nil {
			continue
		}
		at := transport.Handle{ID: p.ID(), Offset: s.row(e.rank)}
		out, err := m.Map(at, shortBytes)
		if err != nil {
			return err
		}
		if s.peers[i].waker, err = m.Waker(p.ID()); err != nil {
			return err
		}
		s.peers[i].out, s.peers[i].in = row(out), row(e.mem.bytes[s.row(i):])
	}
	e.shorts = s
	return nil
}

// row is where a peer's row is in the engine's memory.
func (s *shorts) row(peer int) uint64 { return s.base + uint64(peer)*shortBytes }

// HasShorts says whether there are shorts between the ranks.
func (e *Engine) HasShorts() bool { return e.shorts != nil }

// BeginShort begins an exchange of shorts. In each, this rank calls GiveShort at most
// once for every other rank, then TakeShort for those that give to it, and then EndShort.
func (e *Engine) BeginShort() {
	s := e.shorts
	s.number++
	s.rung, s.err = false, nil
}

// GiveShort gives data, at most [ShortBytes], to a peer. It waits only if the peer is
// late by several messages. If that fails, the exchange does.
func (e *Engine) GiveShort(peer int, data []byte) {
	s := e.shorts
	p := &s.peers[peer]
	if p.sent-p.heard >= shortSlots && !e.awaitSlot(peer) {
		return
	}
	slot := &p.out.slots[p.sent%shortSlots]
	p.sent++
	p.last, p.owed = s.number, 0
	e.stats[peer].Messages++
	e.stats[peer].Bytes += uint64(len(data))
	switch {
	case len(data) == 8: // without a call
		copy(slot.head[:8], data)
	case len(data) <= len(slot.head):
		copy(slot.head[:], data)
	default:
		copy(slot.body[:], data)
	}
	release.Store(&slot.word, p.sent<<shortSignatureBits|uint64(e.signature)&shortSignature)
}

// TakeShort waits for what a peer gives, n bytes, and returns it. It may be read until
// EndShort.
func (e *Engine) TakeShort(peer, n int) ([]byte, error) {
	s := e.shorts
	p := &s.peers[peer]
	slot := &p.in.slots[p.taken%shortSlots]
	word := (p.taken+1)<<shortSignatureBits | uint64(e.signature)&shortSignature
	if slot.word.Load() != word {
		if err := e.awaitShort(peer, &slot.word, word); err != nil {
			return nil, err
		}
	}
	p.taken++
	p.owed++
	p.heard = p.sent
	both := p.last == s.number
	if both {
		p.heard-- // the peer may still have to take that
	}
	if p.owed >= shortOwed {
		s.behind = true
	}
	if n <= len(slot.head) {
		s.again = s.again || both
		return slot.head[:n:n], nil
	}
	return slot.body[:n:n], nil
}

// EndShort ends an exchange: what this rank took in it may be overwritten. It returns
// why the exchange failed, if it did.
func (e *Engine) EndShort() error {
	s := e.shorts
	if s.behind {
		e.tellTaken()
	}
	if !s.rung {
		e.ringShorts()
	}
	if s.again {
		e.ownShorts()
	}
	return s.err
}

// ownShorts asks for the lines of the next messages: the peers are done with what was
// there. For longer messages, and where they go one way, that takes longer than it saves.
func (e *Engine) ownShorts() {
	s := e.shorts
	s.again = false
	for i := range s.peers {
		if p := &s.peers[i]; p.last == s.number && p.out != nil {
			release.Own(&p.out.slots[p.sent%shortSlots].word)
		}
	}
}

// tellTaken tells the peers that wait for it, or will, which messages this rank is done
// with.
func (e *Engine) tellTaken() {
	s := e.shorts
	s.behind = false
	for i := range s.peers {
		if p := &s.peers[i]; p.owed >= shortOwed {
			release.Store(&p.out.done, p.taken)
			p.owed, p.last, s.rung = 0, s.number, false
		}
	}
}

// ringShorts wakes the peers that sleep although this rank's messages of this exchange
// are there.
func (e *Engine) ringShorts() {
	// The words were stored without waiting until all see them, as it takes long.
	// Who is about to sleep has armed its bell and then looked for the word: between
	// our store and our look there must be a fence as well.
	s := e.shorts
	s.rung = true
	s.fence.Add(1)
	for i := range s.peers {
		if p := &s.peers[i]; p.last == s.number && p.waker != nil {
			p.waker.RingIfArmed()
		}
	}
}

// awaitSlot waits until a peer is done with the oldest message in its ring.
func (e *Engine) awaitSlot(peer int) bool {
	s := e.shorts
	if s.err != nil {
		return false
	}
	p := &s.peers[peer]
	free := p.sent - shortSlots + 1
	done := p.in.done.Load()
	if done < free {
		e.ringShorts() // this may take long
		var err error
		if done, err = e.wait.until(s.row(peer)+uint64(unsafe.Offsetof(p.in.done)), free, peer); err != nil {
			s.err = err
			return false
		}
		s.rung = false
	}
	p.heard = max(p.heard, min(done, p.sent))
	return true
}

// awaitShort waits for the word of a message.
func (e *Engine) awaitShort(peer int, at *atomic.Uint64, word uint64) error {
	s := e.shorts
	if s.err != nil {
		return s.err
	}
	// While the message is on its way, this costs nothing.
	if !s.rung {
		e.ringShorts()
	}
	polls, _ := e.wait.spins()
	for range min(polls, eagerPolls) {
		if at.Load() == word {
			return nil
		}
		e.wait.stats.Pauses++
		spinPause(1)
	}
	p := &s.peers[peer]
	offset := s.row(peer) + uint64(uintptr(unsafe.Pointer(at))-uintptr(unsafe.Pointer(p.in)))
	got, err := e.wait.until(offset, word&^shortSignature, peer)
	if err != nil || got == word {
		return err
	}
	tag := func(w uint64) Tag { return Tag{Seq: e.seq, Signature: uint32(w & shortSignature)} }
	return &MismatchError{Peer: peer, Got: tag(got), Want: tag(word)}
}
