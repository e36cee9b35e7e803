package progress

import (
	"bytes"
	"context"
	"fmt"
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
	msg := make([]byte, probeBytes+40)
	for i := range msg {
		msg[i] = byte(rand.Uint32())
	}
	want, looks := bytes.Clone(msg), 0
	for epoch := range uint64(3 * farPages * probeEvery) {
		require.False(t, f.due(epoch, probeBytes-1))
		if f.due(epoch, probeBytes) {
			looks++
			f.look(1, epoch, msg[:probeBytes+int(epoch)%40])
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

// putsTold is a transport that notes how long puts are.
type putsTold struct {
	transport.Transport
	bytes []int
}

func (s *putsTold) PutCounted(c transport.Completion, dst transport.Handle, src []byte, counter uint64) error {
	s.bytes = append(s.bytes, len(src))
	return s.Transport.PutCounted(c, dst, src, counter)
}

// TestFarLeavesSome: a rank whose messages go around the cache leaves the end of those in it
// that its peer looks at, and of no others.
func TestFarLeavesSome(t *testing.T) {
	const n = probeBytes + 2*transport.Granule + 5
	es := open(t, DefaultLayout(2), nil)
	s := &putsTold{Transport: es[0].port.t}
	es[0].port.t = s
	es[0].farness = farness{streamer: &streamTold{}, far: true}
	message := make([]byte, n)
	for i := range message {
		message[i] = byte(rand.Uint32())
	}
	ctx, cancel := context.WithCancel(t.Context())
	var want []int
	together(t, 2, func(me int) (err error) {
		defer func() {
			if err != nil {
				cancel() // the other waits
			}
		}()
		e := es[me]
		e.Begin(ctx, time.Minute, 1, 7)
		for k := range 2 * probeEvery {
			length := n - k%2*3*transport.Granule // the short ones are not looked at
			if me == 0 {
				want = append(want, tagBytes)
				if whole := length / transport.Granule * transport.Granule; k%probeEvery == 0 {
					want = append(want, whole-farTail, farTail)
				} else {
					want = append(want, whole)
				}
				want = append(want, transport.Granule)
				if err := e.Send(1, message[:length]); err != nil {
					return err
				}
				continue
			}
			got, err := e.Recv(0, length)
			if err != nil {
				return err
			}
			if !bytes.Equal(got, message[:length]) {
				return fmt.Errorf("message %d is another", k)
			}
			if err := e.Release(0); err != nil {
				return err
			}
		}
		return nil
	})
	require.Equal(t, want, s.bytes)
}
