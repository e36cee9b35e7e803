package progress

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// staged is a layout with small stages.
func staged(n int) Layout {
	l := tiny(n)
	l.StageSlots, l.StageBytes = 5, 256
	return l
}

// TestStages has ranks publish all lengths, all of them or one, be ahead of each other as
// far as there are slots, and late so that the others sleep.
func TestStages(t *testing.T) {
	for n := 2; n <= 4; n++ {
		t.Run(fmt.Sprintf("ranks=%d", n), func(t *testing.T) {
			seed := newSeed(t)
			es := open(t, staged(n), nil)
			message := func(from int, round uint64, k int) []byte {
				b := make([]byte, k)
				for i := range b {
					b[i] = byte(from*31 + i*7 + int(round)*13)
				}
				return b
			}
			together(t, n, func(me int) error {
				e := es[me]
				require.Equal(t, 5, e.StageSlots())
				require.Equal(t, 256, e.StageBytes())
				late, same := rand.New(rand.NewPCG(seed, uint64(me))), rand.New(rand.NewPCG(seed, 99))
				for call := range 120 {
					e.Begin(context.Background(), time.Minute, uint64(call+1), uint32(seed)+uint32(call))
					first, rounds, k := e.StageRound(), uint64(1+same.IntN(9)), same.IntN(257)
					root, ahead := same.IntN(2*n), uint64(1+same.IntN(2)) // from n on: all publish
					given := first
					for i := first; i < first+rounds; i++ {
						for ; given < min(first+rounds, i+ahead) && (root >= n || root == me); given++ {
							slot, err := e.OpenStage(given, k)
							if err != nil {
								return err
							}
							e.FillStage(slot, message(me, given, k))
							e.PublishStage(given, k, false)
						}
						if late.IntN(200) == 0 {
							time.Sleep(3 * time.Millisecond)
						}
						for p := range n {
							if p == me || root < n && root != p {
								continue
							}
							got, err := e.TakeStage(p, i, k, false)
							if err != nil {
								return err
							}
							if late.IntN(200) == 0 {
								time.Sleep(time.Millisecond)
							}
							if !bytes.Equal(got, message(p, i, k)) {
								return fmt.Errorf("rank %d: round %d of %d is wrong", me, i, p)
							}
						}
						e.EndStage(i)
					}
				}
				return nil
			})
		})
	}
}

// TestStageWords: a payload that looks like a head is not taken for one, wherever it lies.
func TestStageWords(t *testing.T) {
	es := open(t, staged(2), nil)
	together(t, 2, func(me int) error {
		e := es[me]
		for i := range uint64(100) {
			e.Begin(context.Background(), time.Minute, i+1, 7)
			slot, err := e.OpenStage(i, 64)
			if err != nil {
				return err
			}
			for at := 0; at < 64; at += 8 { // the head of the round that comes next in this slot
				binary.LittleEndian.PutUint64(slot[at:], i+6)
			}
			e.PublishStage(i, 64, false)
			got, err := e.TakeStage(1-me, i, 64, false)
			if err != nil {
				return err
			}
			if w := binary.LittleEndian.Uint64(got); w != i+6 {
				return fmt.Errorf("round %d: %d", i, w)
			}
			e.EndStage(i)
		}
		return nil
	})
}

// TestStageMismatch: ranks in different calls find that out by what they publish.
func TestStageMismatch(t *testing.T) {
	es := open(t, staged(2), nil)
	errs := make([]error, 2)
	together(t, 2, func(me int) error {
		e := es[me]
		e.Begin(context.Background(), time.Minute, 1, 77+uint32(me)<<31)
		if _, err := e.OpenStage(0, 1); err != nil {
			return err
		}
		e.PublishStage(0, 1, false)
		_, errs[me] = e.TakeStage(1-me, 0, 1, false)
		return nil
	})
	for me, err := range errs {
		var m *MismatchError
		require.ErrorAs(t, err, &m)
		require.Equal(t, 1-me, m.Peer)
		require.Equal(t, Tag{Seq: 1, Signature: 77 + uint32(me)<<31}, m.Want)
		require.Equal(t, Tag{Seq: 1, Signature: 77 + uint32(1-me)<<31}, m.Got)
	}
}

// TestStageStop: waits for what a peer publishes, and for it to be done with a slot, end
// when the engine's Stop is set, and by their deadline.
func TestStageStop(t *testing.T) {
	stopped := errors.New("stopped")
	for _, full := range []bool{false, true} {
		for _, byStop := range []bool{false, true} {
			stop := NewStop()
			es := open(t, staged(2), func(cfg *Config) { cfg.Stop = stop })
			e := es[0]
			e.Begin(context.Background(), 50*time.Millisecond, 1, 1)
			if byStop {
				e.Begin(context.Background(), time.Minute, 1, 1)
				time.AfterFunc(20*time.Millisecond, func() { stop.Set(stopped) })
			}
			var err error
			if full {
				for i := uint64(0); err == nil; i++ {
					require.LessOrEqual(t, i, uint64(5))
					if _, err = e.OpenStage(i, 1); err == nil {
						e.PublishStage(i, 1, false)
						e.EndStage(i)
					}
				}
			} else {
				_, err = e.TakeStage(1, 0, 1, false)
			}
			if byStop {
				require.ErrorIs(t, err, stopped)
				continue
			}
			var w *WaitError
			require.ErrorAs(t, err, &w)
			require.Equal(t, 1, w.Peer)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
	}
}

// TestStageLate: what readers find of a rank's cache turns its stage, and no other's: if lines
// come late to most of them, or to any where ranks share processors.
func TestStageLate(t *testing.T) {
	const near, memory, far = 299 * time.Nanosecond, 500 * time.Nanosecond, 301 * time.Nanosecond // 3/5 are as good as far
	for _, shared := range []bool{false, true} {
		es := open(t, staged(4), nil)
		judge := func(cached time.Duration, readers ...int) {
			for _, r := range readers {
				es[r].stages.judge(0, cached, memory)
			}
		}
		far0 := func() bool {
			for me, e := range es {
				e.stages.shared = shared
				e.stages.hearLate()
				require.False(t, me > 0 && e.FarStages(), "rank %d", me)
			}
			return es[0].FarStages()
		}
		judge(near, 1, 2, 3)
		judge(far, 1, 1)
		require.Equal(t, shared, far0(), "one of three")
		judge(far, 2, 3)
		require.Equal(t, shared, far0(), "that takes as many readings as said otherwise")
		judge(far, 2)
		require.True(t, far0())
		for range 100 {
			judge(far, 1, 2, 3)
		}
		judge(near, 1, 1, 2, 2)
		require.True(t, far0(), "all were late for long")
		for _, r := range []int{1, 2, 3} {
			es[r].stages.judge(0, 10, cachedNs-1)
		}
		require.True(t, far0(), "lines that somebody has read before say nothing")
		judge(near, 1, 2)
		require.Equal(t, shared, far0(), "one of three again")
		judge(near, 3, 3, 3)
		require.False(t, far0())
	}
}

// TestStageProbes: payloads have lines that are looked at in some rounds, and go as they are.
func TestStageProbes(t *testing.T) {
	l := staged(2)
	l.StageBytes = probeBytes
	es := open(t, l, nil)
	for _, e := range es {
		require.Zero(t, e.stages.every, "time says nothing of goroutines")
		e.stages.every = 3
	}
	together(t, 2, func(me int) error {
		e := es[me]
		for round := range uint64(50) {
			e.Begin(context.Background(), time.Minute, round+1, 7)
			slot, err := e.OpenStage(round, probeBytes)
			if err != nil {
				return err
			}
			for i := range slot {
				slot[i] = byte(i*7 + i>>8 + me + int(round))
			}
			e.stages.far = true
			e.PublishStage(round, probeBytes, false)
			if e.stages.far != (round%3 != 0) {
				return fmt.Errorf("round %d: peers are not heard in time", round)
			}
			e.stages.peers[1-me].lag = -probeLag // whatever this machine's caches are like
			got, err := e.TakeStage(1-me, round, probeBytes, false)
			if err != nil {
				return err
			}
			for i := range got {
				if got[i] != byte(i*7+i>>8+1-me+int(round)) {
					return fmt.Errorf("round %d: byte %d is wrong", round, i)
				}
			}
			e.EndStage(round)
		}
		return nil
	})
}
