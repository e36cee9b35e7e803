package progress

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/weft-go/weft/internal/cache"
	"github.com/weft-go/weft/internal/release"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/mapped"
)

// Stages are memory of each rank that it alone writes and all others read: a ring of
// slots, and a word. They are for calls that move more than a short and need no lanes,
// since all memory is mapped: a rank copies its data once, whoever needs it reads it there.
//
// Calls proceed in rounds. All ranks number them alike, from 0 over all calls, and agree on
// which of them publish a slot in a round. Round t uses slot t mod the number of slots:
//
//	head, a line: t+1, signature << 32 | sequence number of the call, rounds that the rank had ended
//	payload, in another place: Layout.StageBytes
//
// The head's first word is stored last, so that the slot is complete when it says t+1. A
// slot may be written again when all others have ended the round that it was for. Each
// rank says how many rounds it has ended in its word; where all publish all the time
// nobody reads that, as the heads say it along the way.
//
// Where two processors' caches are far apart, what one has just written comes from its cache
// more slowly than from memory. Ranks look at that from time to time: every so often a
// payload has lines in the writer's cache as well as in memory, and the reader sees which
// come sooner. It says so in a word of its own, with a bit for each peer, at which that one looks
// as often. If lines from its cache come late to most, a rank writes around it; where ranks
// share processors, if they do to any, as some always read them from their own processor's
// cache and all go at the pace of the last. See FillStage.
//
// Slots are larger together than a processor's own cache. To write a line that another
// processor has a copy of takes longer than anything else here, twice as long as to read it
// there; such copies should be gone by then. Where a payload is small its place in
// the slot moves on each time, for the same reason.
type stages struct {
	slots   uint64
	bytes   uint64
	ended   uint64 // rounds that this rank has ended
	own     []byte
	peers   []stagePeer
	unheard bool // something was published since the last ring
	fence   atomic.Uint32

	rank   int
	every  uint64 // in how many rounds caches are looked at; 0: never, time says nothing of them
	shared bool   // ranks share processors
	late   uint64 // peers, as bits, from whose caches lines come late
	far    bool   // lines from this rank's cache come late to the others
	chain  uint64
}

// stagePeer is a peer's stage as this rank sees it.
type stagePeer struct {
	area  []byte // nil at this rank
	waker transport.Waker
	ended uint64 // rounds that the peer has ended, as far as is known
	lag   int    // above 0: the peer's cache is no nearer than memory for this rank
}

const (
	stageLine = 64
	stageHead = 2 * stageLine // of a slot, or the word: processors like lines in pairs

	defaultStageSlots = 16
	defaultStageBytes = 64 << 10
	// farBytes are the least that are written around the cache.
	farBytes = 4 << 10
	// In how many rounds one is looked at, of how many bytes at least, and how often one
	// way must have been the faster to be taken for that. Where ranks share processors they
	// have several peers to look at, and less time.
	probeEvery       = 8
	sharedProbeEvery = 32
	probeBytes       = 16 << 10
	probeLag         = 3
	// cachedNs is what so many lines of a payload don't take from memory, one after another.
	cachedNs = 50 * probeBytes / probePage

	lateWord = 8 // of a rank's stage

	// stageRanks is up to how many ranks there are stages: everybody looks at everybody.
	stageRanks = 16
)

// stageArea is the size of a rank's stage, 0 if there is none.
func (l Layout) stageArea() uint64 {
	if l.StageSlots == 0 {
		return 0
	}
	return stageHead + uint64(l.StageSlots)*(stageHead+uint64(l.StageBytes))
}

// openStages makes the engine's stages. There are shorts, so that memory is mapped.
func (e *Engine) openStages() error {
	l := e.layout
	if l.StageSlots == 0 || e.shorts == nil {
		return nil
	}
	s := &stages{
		slots: uint64(l.StageSlots), bytes: uint64(l.StageBytes), own: e.mem.bytes[l.stages():][:l.stageArea()],
		peers: make([]stagePeer, l.Ranks), rank: e.rank, shared: e.cfg.Policy.Oversubscribed,
	}
	m := e.t.(transport.Mapper)
	for i, p := range e.peers {
		if p == nil {
			continue
		}
		var err error
		if s.peers[i].area, err = m.Map(transport.Handle{ID: p.ID(), Offset: l.stages()}, l.stageArea()); err != nil {
			return err
		}
		s.peers[i].waker = e.shorts.peers[i].waker
	}
	switch {
	case e.cfg.Policy.InProcess:
	case s.shared:
		s.every = sharedProbeEvery
	default:
		s.every = probeEvery
	}
	e.stages = s
	return nil
}

// StageBytes is what a rank can publish in one round, and StageSlots how many rounds a rank
// may be ahead of one that has not ended the first of them. 0: there are no stages.
func (e *Engine) StageBytes() int {
	return e.layout.StageBytes * e.StageSlots() / max(e.layout.StageSlots, 1)
}

// StageSlots is the number of slots of a rank.
func (e *Engine) StageSlots() int {
	if e.stages == nil {
		return 0
	}
	return e.layout.StageSlots
}

// StageRound is the number of rounds that this rank has ended: between calls, the number of
// the next one on all ranks.
func (e *Engine) StageRound() uint64 { return e.stages.ended }

// head is where the head of round t's slot is.
func (s *stages) head(t uint64) uint64 { return stageHead * (1 + t%s.slots) }

// payload is where in a rank's stage n bytes of round t are.
func (s *stages) payload(t uint64, n int) uint64 {
	size := uint64(max(n, 1)+stageLine-1) &^ (stageLine - 1)
	return stageHead*(1+s.slots) + t%s.slots*s.bytes + t/s.slots%(s.bytes/size)*size
}

// OpenStage returns this rank's slot for the n bytes of round t, at most StageBytes, to be
// filled, when all others are done with what it had. It is aligned to a line.
func (e *Engine) OpenStage(t uint64, n int) ([]byte, error) {
	s := e.stages
	if t >= s.slots {
		need := t - s.slots + 1
		for i := range s.peers {
			p := &s.peers[i]
			if p.ended >= need || p.area == nil {
				continue
			}
			ended, err := e.awaitStage(mapped.Word(p.area, 0), need, i)
			if err != nil {
				return nil, err
			}
			p.ended = ended
		}
	}
	at := s.payload(t, n)
	return s.own[at : at+uint64(n) : at+uint64(n)], nil
}

// FillStage copies src to a part of a slot.
func (e *Engine) FillStage(dst, src []byte) {
	if e.stages.far && len(src) >= farBytes {
		cache.Stream(dst, src)
	} else {
		copy(dst, src)
	}
}

// FarStages says whether slots had better be written by FillStage only.
func (e *Engine) FarStages() bool { return e.stages.far }

// PublishStage gives the slot of round t, with n bytes, to all. kept says that this rank has
// it in its cache for itself as well, as it reads it again.
func (e *Engine) PublishStage(t uint64, n int, kept bool) {
	s := e.stages
	if !kept && s.probed(t, n) {
		s.hearLate()
		at := s.payload(t, n)
		s.layProbes(t, s.own[at:at+uint64(n)])
	}
	head := s.own[s.head(t):]
	binary.LittleEndian.PutUint64(head[8:], uint64(e.signature)<<32|uint64(e.seq))
	binary.LittleEndian.PutUint64(head[16:], s.ended)
	release.Store(mapped.Word(head, 0), t+1)
	s.unheard = true
}

// CountStage counts n bytes that were published for a peer.
func (e *Engine) CountStage(peer, n int) {
	e.stats[peer].Messages++
	e.stats[peer].Bytes += uint64(n)
}

// TakeStage waits for the slot of a peer for round t, of n bytes, and returns it. It may
// be read until this rank ends the round. kept is what the peer says of it.
func (e *Engine) TakeStage(peer int, t uint64, n int, kept bool) ([]byte, error) {
	s := e.stages
	p := &s.peers[peer]
	head := p.area[s.head(t):]
	got := mapped.Word(head, 0).Load()
	if got < t+1 {
		var err error
		if got, err = e.awaitStage(mapped.Word(head, 0), t+1, peer); err != nil {
			return nil, err
		}
	}
	call := binary.LittleEndian.Uint64(head[8:])
	if want := uint64(e.signature)<<32 | uint64(e.seq); call != want || got != t+1 {
		tag := func(w uint64) Tag { return Tag{Seq: uint32(w), Signature: uint32(w >> 32)} }
		return nil, &MismatchError{Peer: peer, Got: tag(call), Want: tag(want)}
	}
	p.ended = max(p.ended, binary.LittleEndian.Uint64(head[16:]))
	at := s.payload(t, n)
	b := p.area[at : at+uint64(n) : at+uint64(n)]
	if !kept && s.probed(t, n) {
		s.probe(peer, t, b)
	}
	return b, nil
}

// EndStage says that this rank is done with round t, all before, and what it took in them.
// It wakes who sleeps because this rank was late.
func (e *Engine) EndStage(t uint64) {
	s := e.stages
	s.ended = t + 1
	release.Store(mapped.Word(s.own, 0), s.ended)
	e.ringStages()
}

// ringStages wakes the peers that sleep. See EndShort.
func (e *Engine) ringStages() {
	s := e.stages
	s.unheard = false
	s.fence.Add(1)
	for i := range s.peers {
		if w := s.peers[i].waker; w != nil {
			w.RingIfArmed()
		}
	}
}

// awaitStage waits until a word of a peer's is at least want, and returns it.
func (e *Engine) awaitStage(w *atomic.Uint64, want uint64, peer int) (uint64, error) {
	polls, _ := e.wait.spins()
	for range min(polls, eagerPolls) {
		if got := w.Load(); got >= want {
			return got, nil
		}
		e.wait.stats.Pauses++
		spinPause(1)
	}
	if e.stages.unheard { // this may take long
		e.ringStages()
	}
	e.words = append(e.words[:0], word{own: w, want: want})
	got, _, err := e.wait.any(e.words, peer)
	return got, err
}

// probeLines are the lines of each page by which the ways of data are compared: one that is
// in the writer's cache, and one in memory. They are others each time, since processors
// learn which lines of a page are read after each other.
func probeLines(t uint64) (cached, memory int) {
	h := (t/probeEvery + 1) * 0x9e3779b97f4a7c15
	const half = probePage / stageLine / 2
	return int(1+(h>>40)%(half-2)) * stageLine, int(half+1+(h>>50)%(half-2)) * stageLine
}

const probePage = 4 << 10

// probed says whether the payload of round t has such lines.
func (s *stages) probed(t uint64, n int) bool {
	return s.every > 0 && n >= probeBytes && t%s.every == 0
}

// layProbes puts the lines of a payload where they are looked for.
func (s *stages) layProbes(t uint64, b []byte) {
	atCached, atMemory := probeLines(t)
	var line [stageLine]byte
	for page := 0; page < probeBytes; page += probePage {
		cached, memory := b[page+atCached:][:stageLine], b[page+atMemory:][:stageLine]
		copy(line[:], cached)
		copy(cached, line[:])
		copy(line[:], memory)
		cache.Stream(memory, line[:])
	}
}

// probe compares how long single lines take from a peer's cache and from memory. Of many
// lines memory has more under way at a time, so that it is well ahead where they take about
// as long, and the processor may have asked for some of them ahead. Where caches are near
// they take a fifth.
func (s *stages) probe(peer int, t uint64, b []byte) {
	atCached, atMemory := probeLines(t)
	s.chase(b, 0) // so that the pages are known
	t0 := time.Now()
	s.chase(b, atCached)
	t1 := time.Now()
	s.chase(b, atMemory)
	s.judge(peer, t1.Sub(t0), time.Since(t1))
}

// judge takes how long lines took to come from a peer's cache, and from memory, and tells
// the peer if that is news.
func (s *stages) judge(peer int, cached, memory time.Duration) {
	if memory < cachedNs {
		return // another rank on this processor has read them already
	}
	p := &s.peers[peer]
	if 5*cached > 3*memory {
		p.lag = min(p.lag+1, probeLag)
	} else {
		p.lag = max(p.lag-1, -probeLag)
	}
	late := s.late &^ (1 << peer)
	if p.lag > 0 {
		late |= 1 << peer
	}
	if late != s.late {
		s.late = late
		mapped.Word(s.own, lateWord).Store(late)
	}
}

// hearLate takes what the peers say of this rank's cache.
func (s *stages) hearLate() {
	late, peers := 0, 0
	for i := range s.peers {
		if area := s.peers[i].area; area != nil {
			peers++
			late += int(mapped.Word(area, lateWord).Load() >> s.rank & 1)
		}
	}
	s.far = 2*late > peers || s.shared && late > 0
}

// chase reads a line of each page, one after the other.
func (s *stages) chase(b []byte, at int) {
	x := uint64(0)
	for ; at < probeBytes; at += probePage {
		// The sum is at, which the processor does not know before it has x.
		x = binary.LittleEndian.Uint64(b[uint64(at)+x&s.chain:])
	}
	s.chain &= x // 0
}
