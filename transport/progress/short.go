package progress

import (
	"sync/atomic"
	"unsafe"

	"github.com/weft-go/weft/internal/cache"
	"github.com/weft-go/weft/internal/release"
	"github.com/weft-go/weft/transport"
)

// Shorts are messages of a few bytes between two ranks, in peers' memory that is
// mapped: no completion, no cell, no counter. A message lies in a slot that only its
// sender writes, of lines of 64 bytes:
//
//	word: number of the message << 24 | low bits of the call's signature
//	head: the payload, if it has 56 bytes at most
//	body: else the payload, in lines of its own, if it has 576 bytes at most
//
// Still longer ones are elsewhere, and of them there may be fewer at a time. So are all that
// are longer than a line where each rank has a processor: there the ring is short, and its
// lines, which go to and fro between two caches, should be as few as can be. Between two ranks
// those of more than a KiB go around many places: to write a line that another processor has a
// copy of takes longer than to fetch it from further away.
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
// A rank's memory has a ring of slots for each peer. A slot is used again
// when its reader is done with the message in it. The writer knows that from a message that it
// takes from that reader: the reader gave it in an exchange that it began after it had ended
// those before. Only a rank that takes several without giving any says so by a word of its own,
// after every half of a ring, and before it waits long: so the first of them, in Broadcasts
// say, may be ahead by a ring.
type shorts struct {
	number uint64 // of the current exchange
	slots  uint64 // of a ring, a power of two
	near   int    // bytes of what lies in slots, at most
	peers  []shortPeer
	base   uint64 // of the engine's memory
	err    error  // why the current exchange failed
	rung   bool   // in it, the peers were woken if they slept
	behind bool   // some peer is to be told what was taken
	again  bool   // the next is most likely such a one: lines go both ways
	body   int    // and so many bytes of its payload are not in the word's line
	stays  bool   // ranks share processors, see stay
	fence  atomic.Uint32
}

// shortPeer is this rank's end of both rings with a peer.
type shortPeer struct {
	out, in           *shortRow // in the peer's memory, and in this rank's; nil at this rank
	outPlaces, places *shortPlaces
	waker             transport.Waker

	sent  uint64 // messages given to the peer
	heard uint64 // of them those that it is done with, as far as this rank knows
	last  uint64 // the exchange of the last of them
	taken uint64 // messages taken from the peer
	owed  uint64 // of them those that it doesn't know to be done with
	held  uint64 // the exchange of the last of them
	said  uint64 // of them those that this rank has said by done to be done with
	told  uint64 // the exchange in which the peer was last told what this rank is done with

	stay stay
}

// shortRow is what a rank's memory has for one peer, which writes it.
type shortRow struct {
	done  atomic.Uint64 // the messages to the peer that it is done with, when it says so
	_     [transport.CounterAlign - 8]byte
	slots [shortSlots]shortSlot
	long  [shortLongs][ShortBytes]byte // of message k in k mod their number
}

// shortPlaces is what two ranks have besides, for messages of more than fewLines: that of message
// k is in k mod their number.
type shortPlaces [1 << 20 / ShortBytes][ShortBytes]byte

type shortSlot struct {
	word atomic.Uint64
	head [shortLine - 8]byte
	body [9 * shortLine]byte // the whole is an even number of lines: processors like them in pairs
}

const (
	shortLine = 64
	// Of a ring, where ranks share processors and where they don't: so many calls whoever gives
	// only may be ahead. A processor that is shared changes hands as often less.
	shortSlots = 64
	shortLongs = 4 // of longer messages always
	shortBytes = uint64(unsafe.Sizeof(shortRow{}))
	placeBytes = uint64(unsafe.Sizeof(shortPlaces{}))
	fewLines   = 1 << 10
	ownedBytes = 512 // up to so many bytes a message's lines are asked for in advance

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
	s := &shorts{base: e.layout.shorts(), peers: make([]shortPeer, e.layout.Ranks), slots: shortLongs, near: shortLine}
	s.stays = e.cfg.Policy.Oversubscribed && !e.cfg.Policy.InProcess
	if e.layout.ManyShorts {
		s.slots, s.near = shortSlots, len(shortSlot{}.body)
	}
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
		if n := e.layout.placeBytes(); n > 0 {
			at.Offset = e.layout.shortPlaces()
			out, err := m.Map(at, n)
			if err != nil {
				return err
			}
			s.peers[i].outPlaces = (*shortPlaces)(unsafe.Pointer(unsafe.SliceData(out[:n])))
			s.peers[i].places = (*shortPlaces)(unsafe.Pointer(unsafe.SliceData(e.mem.bytes[at.Offset:][:n])))
		}
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
	if p.sent-p.heard >= s.ring(len(data)) && !e.awaitSlot(peer, len(data)) {
		return
	}
	number := p.sent
	slot := &p.out.slots[number&(s.slots-1)%shortSlots]
	p.sent++
	switch {
	case len(data) == 8: // without a call
		copy(slot.head[:8], data)
	case len(data) <= len(slot.head):
		copy(slot.head[:], data)
	case len(data) <= s.near:
		copy(slot.body[:], data)
	case len(data) > fewLines && p.outPlaces != nil:
		copy(p.outPlaces[number%uint64(len(p.outPlaces))][:], data)
	default:
		copy(p.out.long[number%shortLongs][:], data)
	}
	release.Store(&slot.word, p.sent<<shortSignatureBits|uint64(e.signature)&shortSignature)
	// Only now, while the message is on its way.
	p.last, p.owed = s.number, 0
	e.stats[peer].Messages++
	e.stats[peer].Bytes += uint64(len(data))
}

// TakeShort waits for what a peer gives, n bytes, and returns it. It may be read until
// EndShort.
func (e *Engine) TakeShort(peer, n int) ([]byte, error) {
	s := e.shorts
	p := &s.peers[peer]
	number := p.taken
	slot := &p.in.slots[number&(s.slots-1)%shortSlots]
	word := (number+1)<<shortSignatureBits | uint64(e.signature)&shortSignature
	var data []byte
	switch {
	case n <= len(slot.head):
		data = slot.head[:n:n]
	case n <= s.near:
		data = slot.body[:n:n]
	case n > fewLines && p.places != nil:
		data = p.places[number%uint64(len(p.places))][:n:n]
	default:
		data = p.in.long[number%shortLongs][:n:n]
	}
	// All that is to be noted is noted before the message is there: then others wait.
	p.taken++
	p.owed++
	p.held = s.number
	p.heard = p.sent
	both := p.last == s.number
	if both {
		p.heard-- // the peer may still have to take that
		if n <= ownedBytes {
			s.again = true
			if n > len(slot.head) {
				s.body = n
			}
		}
	}
	if p.owed >= s.ring(n)/2 {
		s.behind = true
	}
	if (!both || s.stays) && slot.word.Load() == word {
		return data, nil
	}
	return data, e.awaitShort(peer, &slot.word, word)
}

// ring is how many messages a peer may be behind when one of n bytes is given.
func (s *shorts) ring(n int) uint64 {
	if n <= s.near {
		return s.slots
	}
	return shortLongs
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
	for i := range s.peers {
		if p := &s.peers[i]; p.last == s.number && p.out != nil {
			slot := &p.out.slots[p.sent&(s.slots-1)%shortSlots]
			release.Own(&slot.word)
			switch {
			case s.body == 0:
			case s.body <= s.near:
				cache.Own(slot.body[:s.body])
			default:
				cache.Own(p.out.long[p.sent%shortLongs][:s.body])
			}
		}
	}
	s.again, s.body = false, 0
}

// tellTaken tells the peers that wait for it, or will, which messages this rank is done
// with.
func (e *Engine) tellTaken() {
	s := e.shorts
	s.behind = false
	for i := range s.peers {
		if p := &s.peers[i]; p.owed >= shortLongs/2 {
			release.Store(&p.out.done, p.taken)
			p.said, p.owed, p.told, s.rung = p.taken, 0, s.number, false
		}
	}
}

// tellEnded tells the peers which messages this rank was done with before the current
// exchange, if it is so many that they may wait for that, and this rank for them: whoever waits
// for room does not look at what this rank gives.
func (e *Engine) tellEnded() {
	s := e.shorts
	for i := range s.peers {
		p := &s.peers[i]
		ended := p.taken
		if p.held == s.number {
			ended--
		}
		if ended-p.said < shortLongs {
			continue
		}
		p.said = ended
		release.Store(&p.out.done, p.said)
		p.told, s.rung = s.number, false
	}
	if !s.rung {
		e.ringShorts()
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
		if p := &s.peers[i]; (p.last == s.number || p.told == s.number) && p.waker != nil {
			p.waker.RingIfArmed()
		}
	}
}

// awaitSlot waits until there is room for a message of n bytes in a peer's ring.
func (e *Engine) awaitSlot(peer, n int) bool {
	s := e.shorts
	if s.err != nil {
		return false
	}
	p := &s.peers[peer]
	free := p.sent - s.ring(n) + 1
	done := p.in.done.Load()
	if done < free {
		s.rung = false
		e.tellEnded() // this may take long
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

// awaitShort waits for the word of a message. It does not look before this rank's own messages
// are there: where lines go both ways the peer has asked for the line, and to look too early takes
// it away again.
func (e *Engine) awaitShort(peer int, at *atomic.Uint64, word uint64) error {
	s := e.shorts
	if s.err != nil {
		return s.err
	}
	// While the message is on its way, this costs nothing.
	if !s.rung {
		e.ringShorts()
	}
	p := &s.peers[peer]
	polls, _ := e.wait.spins()
	stays := s.stays && p.stay.due()
	if stays {
		polls = stayPolls
	}
	for range min(polls, eagerPolls) {
		if at.Load() == word {
			if stays {
				p.stay.paid()
			}
			return nil
		}
		e.wait.stats.Pauses++
		spinPause(1)
	}
	if stays {
		p.stay.failed()
	}
	e.tellEnded()
	offset := s.row(peer) + uint64(uintptr(unsafe.Pointer(at))-uintptr(unsafe.Pointer(p.in)))
	got, err := e.wait.until(offset, word&^shortSignature, peer)
	if err != nil || got == word {
		return err
	}
	tag := func(w uint64) Tag { return Tag{Seq: e.seq, Signature: uint32(w & shortSignature)} }
	return &MismatchError{Peer: peer, Got: tag(got), Want: tag(word)}
}
