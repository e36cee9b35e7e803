package progress

import (
	"encoding/binary"
	"time"
	"unsafe"

	"github.com/weft-go/weft/internal/cache"
	"github.com/weft-go/weft/transport"
)

// Where two processors' caches are far apart, what one has just written comes from its
// cache more slowly than from memory, see stages. Where long messages are copied by the
// processor they had better go around its cache then.
//
// Ranks look at that every so often, at messages that both ends count alike: the end of
// those is in their sender's cache whatever was found before, and how long a line of it takes
// to come is compared with a line of the rank's own that is in no cache. It lies where nothing has
// asked for it ahead, as processors do for what follows the message before. If it comes late
// from most peers, this rank's messages go around the cache. A single line
// is a fair measure: memory has more lines under way at a time, and so is ahead with
// long messages where a single line takes about as long.
type farness struct {
	streamer transport.Streamer // nil: nobody looks
	lags     []int              // by peer; above 0: its cache is no nearer than memory
	far      bool
	memory   []byte // lines in no cache, one in each page
	chain    uint64 // 0
}

const (
	farPages = 16
	// farTail is the end of a message that is looked at. It is less than what a
	// transport takes for a long put.
	farTail = 2 << 10
)

// watch begins to look if the transport can be told what comes of it.
func (f *farness) watch(t transport.Transport, ranks int, p WaitPolicy) {
	s, ok := t.(transport.Streamer)
	if !ok || p.InProcess || p.Oversubscribed {
		return
	}
	*f = farness{streamer: s, lags: make([]int, ranks), memory: make([]byte, (farPages+1)*probePage)}
	for i := range uint64(farPages) {
		cache.Stream(f.line(i), make([]byte, stageLine))
	}
}

// line is one of the lines.
func (f *farness) line(i uint64) []byte {
	at := i%farPages*probePage + probePage/2
	at += -uint64(uintptr(unsafe.Pointer(&f.memory[0]))) % stageLine
	return f.memory[at:][:stageLine]
}

// due says whether a lane's message of an epoch with n bytes of payload is to be looked at.
func (f *farness) due(epoch uint64, n int) bool {
	return n >= probeBytes && f.streamer != nil && epoch%probeEvery == 0
}

// look looks at a message from a peer that came and was not read yet.
func (f *farness) look(peer int, epoch uint64, msg []byte) {
	turn := epoch / probeEvery
	line := f.line(turn)
	tail := msg[len(msg)/transport.Granule*transport.Granule-farTail:][:farTail]
	if rest := int(-uint64(uintptr(unsafe.Pointer(&tail[0]))) % probePage); rest < farTail/2 {
		tail = tail[rest:]
	}
	// So that the pages are known.
	f.chain &= f.read(tail) + f.read(f.memory[turn%farPages*probePage:])
	t0 := time.Now()
	f.chain &= f.read(tail[farTail/4+turn%4*2*stageLine:])
	t1 := time.Now()
	f.chain &= f.read(line)
	cached, memory := t1.Sub(t0), time.Since(t1)
	cache.Stream(line, make([]byte, stageLine))
	f.judge(peer, cached, memory)
}

// judge takes how long a line took to come from a peer's cache, and one from memory.
func (f *farness) judge(peer int, cached, memory time.Duration) {
	if 5*cached > 4*memory {
		f.lags[peer] = min(f.lags[peer]+1, probeLag)
	} else {
		f.lags[peer] = max(f.lags[peer]-1, -probeLag)
	}
	late := 0
	for _, lag := range f.lags {
		if lag > 0 {
			late++
		}
	}
	if far := 2*late > len(f.lags)-1; far != f.far {
		f.far = far
		f.streamer.Stream(far)
	}
}

// read reads a word. It is 0 for the processor to know only when it has come.
func (f *farness) read(b []byte) uint64 { return binary.LittleEndian.Uint64(b[f.chain:]) & f.chain }
