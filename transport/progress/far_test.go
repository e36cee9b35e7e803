package progress

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport"
)

// streamTold is a transport that notes what it is told.
type streamTold struct {
	transport.Transport
	told []bool
}

func (s *streamTold) Stream(on bool) { s.told = append(s.told, on) }

// TestFarTurns: messages go around the cache when lines come late from most peers, and no
// more when they don't, each told once.
func TestFarTurns(t *testing.T) {
	const near, memory = 79 * time.Nanosecond, 100 * time.Nanosecond // 4/5 are as good as far
	const far = near + 2*time.Nanosecond
	var f farness
	s := &streamTold{}
	f.watch(s, 4, WaitPolicy{})
	judge := func(cached time.Duration, peers ...int) {
		for _, p := range peers {
			f.judge(p, cached, memory)
		}
	}
	judge(near, 1, 2, 3)
	judge(far, 1, 1, 1, 1)
	require.Empty(t, s.told, "one of three")
	judge(far, 2)
	require.Empty(t, s.told, "that takes as many readings as said otherwise")
	judge(far, 2)
	require.Equal(t, []bool{true}, s.told)
	judge(far, 1, 2, 3, 3, 3, 3, 3)
	judge(near, 1, 1)
	require.Equal(t, []bool{true}, s.told, "all were late for long")
	for range 100 {
		judge(far, 2, 3)
	}
	judge(near, 2, 2, 2)
	judge(near, 1, 1)
	require.Equal(t, []bool{true, false}, s.told, "and forget what was long ago")
	judge(far, 1, 1, 1, 1, 2, 2, 2, 2)
	require.Equal(t, []bool{true, false, true}, s.told)
}

// TestFarLooks: long messages are looked at, one of some, by ranks that have processors, and
// stay as they are.
func TestFarLooks(t *testing.T) {
	for _, p := range []WaitPolicy{{InProcess: true}, {Oversubscribed: true}} {
		var f farness
		f.watch(&streamTold{}, 2, p)
		for epoch := range uint64(10 * probeEvery) {
			require.False(t, f.due(epoch, 1<<20))
		}
	}
	var f farness
	f.watch(&streamTold{}, 2, WaitPolicy{})
	f.lags[1] = 2 * probeLag
	msg := make([]byte, tagBytes+probeBytes)
	for i := range msg {
		msg[i] = byte(rand.Uint32())
	}
	want, looks := bytes.Clone(msg), 0
	for epoch := range uint64(3 * farPages * probeEvery) {
		require.False(t, f.due(epoch, probeBytes-1))
		if f.due(epoch, probeBytes) {
			looks++
			f.look(1, epoch, msg)
		}
	}
	require.Equal(t, 3*farPages, looks)
	require.Equal(t, want, msg)
	require.Zero(t, f.chain)
	require.LessOrEqual(t, f.lags[1], probeLag, "what it finds counts")
	for i := range uint64(farPages) {
		require.Zero(t, uintptr(unsafe.Pointer(&f.line(i)[0]))%stageLine)
	}
}
