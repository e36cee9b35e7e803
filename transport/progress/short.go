package progress

import (
	"sync/atomic"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/mapped"
)

// Shorts are messages of a few bytes that every rank gives to every other, in
// peers' memory that is mapped: no completion, no cell, no credit. A message is one
// line, or a few, that only its sender writes. Each line begins with a word that says
// which exchange it belongs to, and is there when its word is:
//
//	word: number of the exchange << 24 | low bits of the call's signature
//	payload: 56 bytes
//
// A rank's memory has two slots for each peer, used in turn. A slot is used again
// two exchanges later. By then the reader is done with it: the writer has heard from
// the reader in the exchange between, which the reader began after it had ended the one
// before. That is why all ranks give to all others in every exchange, and hear
// from all.
type shorts struct {
	number uint64 // of the current exchange
	peers  []shortPeer
	base   uint64 // of the engine's memory
	own    []byte // the rows of all peers in this rank's memory
	room   []byte // where messages of several lines are put together, by rank
	fence  atomic.Uint32
}

// shortPeer is what this rank writes at a peer.
type shortPeer struct {
	lines []byte // this rank's two slots in the peer's memory; nil at this rank
	waker transport.Waker
	used  int // lines of the last message
}

const (
	shortLine    = 64
	shortPayload = shortLine - 8
	shortLines   = 10 // of a slot
	shortSlot    = shortLine * shortLines
	shortRow     = 2 * shortSlot // of one peer

	shortSignatureBits = 24

	// ShortBytes is the largest payload of a short.
	ShortBytes = shortLines * shortPayload
)

// openShorts makes the engine's shorts, if the peers' memory is mapped.
func (e *Engine) openShorts() error {
	m, ok := e.t.(transport.Mapper)
	if !ok || e.faulty {
		return nil
	}
	s := &shorts{base: e.layout.shorts(), peers: make([]shortPeer, e.layout.Ranks), own: e.mem.bytes[e.layout.shorts():], room: make([]byte, e.layout.Ranks*ShortBytes)}
	for i, p := range e.peers {
		if p == nil {
			continue
		}
		at := transport.Handle{ID: p.ID(), Offset: s.base + uint64(e.rank)*shortRow}
		var err error
		if s.peers[i].lines, err = m.Map(at, shortRow); err != nil {
			return err
		}
		if s.peers[i].waker, err = m.Waker(p.ID()); err != nil {
			return err
		}
	}
	e.shorts = s
	return nil
}

// HasShorts says whether there are shorts between the ranks.
func (e *Engine) HasShorts() bool { return e.shorts != nil }

// BeginShort begins an exchange of shorts. In each, this rank calls
// GiveShort and TakeShort once for every other rank, all GiveShort before the first
// TakeShort, and then EndShort. All ranks agree on the exchanges of a call.
func (e *Engine) BeginShort() {
	e.shorts.number++
}

// slot is where the slot of the current exchange begins in a row.
func (s *shorts) slot() uint64 { return s.number % 2 * shortSlot }

func (e *Engine) shortWord() uint64 {
	return e.shorts.number<<shortSignatureBits | uint64(e.signature)&(1<<shortSignatureBits-1)
}

// GiveShort gives data, at most [ShortBytes], to a peer. It does not wait.
func (e *Engine) GiveShort(peer int, data []byte) {
	p := &e.shorts.peers[peer]
	word := e.shortWord()
	p.used = 0
	lines := p.lines[e.shorts.slot():]
	e.stats[peer].Messages++
	e.stats[peer].Bytes += uint64(len(data))
	for {
		n := min(len(data), shortPayload)
		copy(lines[8:shortLine], data[:n])
		storeWord(mapped.Word(lines, 0), word)
		p.used++
		if data, lines = data[n:], lines[shortLine:]; len(data) == 0 {
			break
		}
	}
}

// EndShort wakes the peers that sleep because this rank's messages came late. It comes
// after the last TakeShort of an exchange.
func (e *Engine) EndShort() {
	// The words were stored without waiting until all see them, as it takes long.
	// Who is about to sleep has armed its bell and then looked for the word: between
	// our store and our look there must be a fence as well.
	e.shorts.fence.Add(1)
	for i := range e.shorts.peers {
		p := &e.shorts.peers[i]
		if p.used > 0 {
			p.waker.RingIfArmed()
			// The slot of the next exchange: the peer is done with it.
			ownLines(&p.lines[shortSlot-e.shorts.slot()], p.used)
		}
	}
}

// TakeShort waits for what a peer gives, n bytes, and returns it. It may be read until
// the next exchange.
func (e *Engine) TakeShort(peer, n int) ([]byte, error) {
	word := e.shortWord()
	at := uint64(peer)*shortRow + e.shorts.slot()
	lines := e.shorts.own[at : at+shortSlot]
	data := lines[8 : 8+min(n, shortPayload)]
	var room []byte
	for from := 0; ; {
		if got := mapped.Word(lines, 0).Load(); got != word {
			if err := e.awaitShort(peer, at, word); err != nil {
				return nil, err
			}
		}
		if n <= shortPayload {
			return data, nil
		}
		if room == nil {
			room = e.shorts.room[peer*ShortBytes:][:n:n]
		}
		if from += copy(room[from:], lines[8:shortLine]); from == n {
			return room, nil
		}
		at, lines = at+shortLine, lines[shortLine:]
	}
}

// awaitShort waits for a line.
func (e *Engine) awaitShort(peer int, at, word uint64) error {
	polls, _ := e.wait.spins()
	for range min(polls, eagerPolls) {
		e.wait.stats.Pauses++
		spinPause(1)
		if mapped.Word(e.shorts.own, at).Load() == word {
			return nil
		}
	}
	e.EndShort() // this may take long
	got, err := e.wait.until(e.shorts.base+at, word&^(1<<shortSignatureBits-1), peer)
	if err != nil || got == word {
		return err
	}
	tag := func(w uint64) Tag { return Tag{Seq: e.seq, Signature: uint32(w & (1<<shortSignatureBits - 1))} }
	return &MismatchError{Peer: peer, Got: tag(got), Want: tag(word)}
}
