package progress

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestShorts has ranks exchange many lengths, and be late so that the others sleep.
func TestShorts(t *testing.T) {
	for n := 2; n <= 5; n++ {
		if raceEnabled && n != 3 { // ranks are alike
			continue
		}
		t.Run(fmt.Sprintf("ranks=%d", n), func(t *testing.T) {
			seed := newSeed(t)
			es := open(t, tiny(n), nil)
			message := func(from, to, k int) []byte {
				r := rand.New(rand.NewPCG(seed, uint64(from<<20|to<<10|k)))
				b := make([]byte, k)
				for i := range b {
					b[i] = byte(r.Uint32())
				}
				return b
			}
			together(t, n, func(me int) error {
				e := es[me]
				late := rand.New(rand.NewPCG(seed, uint64(me)))
				for k := 0; k <= ShortBytes; k += 1 + k/200 {
					e.Begin(context.Background(), time.Minute, uint64(k+1), uint32(seed)+uint32(k))
					if late.IntN(100) == 0 {
						time.Sleep(3 * time.Millisecond)
					}
					for range 1 + k%3 { // exchanges of a call
						e.BeginShort()
						for p := range n {
							if p != me {
								e.GiveShort(p, message(me, p, k))
							}
						}
						got := make([][]byte, n)
						for p := range n {
							if p == me {
								continue
							}
							var err error
							if got[p], err = e.TakeShort(p, k); err != nil {
								return err
							}
						}
						for p := range n {
							if p != me && !bytes.Equal(message(p, me, k), got[p]) {
								return fmt.Errorf("rank %d: %d bytes from %d are wrong", me, k, p)
							}
						}
						if err := e.EndShort(); err != nil {
							return err
						}
					}
				}
				return nil
			})
		})
	}
}

// TestShortsRooted has ranks make exchanges of all kinds in random order: all to all, one
// to all, all to one. Some ranks are late, so that others are ahead by a ring of slots and
// wait. The numbers of messages are such that words wrap around meanwhile.
func TestShortsRooted(t *testing.T) {
	const rounds, wrap = 3000, 1 << (64 - shortSignatureBits)
	for n := 2; n <= 4; n++ {
		t.Run(fmt.Sprintf("ranks=%d", n), func(t *testing.T) {
			seed := newSeed(t)
			es := open(t, tiny(n), nil)
			for _, e := range es {
				beforeWrap(e, wrap-100)
			}
			byteOf := func(from, to, k, i int) byte { return byte(seed>>(i%7*8)) ^ byte(from*31+to*57+k*101+i) }
			together(t, n, func(me int) error {
				e := es[me]
				same := rand.New(rand.NewPCG(seed, 0)) // the same on all ranks
				late := rand.New(rand.NewPCG(seed, uint64(1+me)))
				for k := range rounds {
					kind, root, length := same.IntN(5), same.IntN(n), same.IntN(100)
					if kind > 2 { // one rank is ahead most of the time
						kind, root = 1, k/500%n
					}
					if same.IntN(10) == 0 {
						length = same.IntN(ShortBytes + 1)
					}
					gives := func(from, to int) bool {
						return from != to && (kind == 0 || kind == 1 && from == root || kind == 2 && to == root)
					}
					e.Begin(context.Background(), time.Minute, uint64(k+1), uint32(seed)+uint32(k))
					pause := func() {
						q := &e.shorts.peers[(me+1)%n]
						if late.IntN(400) == 0 || q.taken-(wrap-2) < 6 && k%n == me {
							time.Sleep(time.Duration(late.IntN(2000)) * time.Microsecond)
						}
					}
					pause()
					e.BeginShort()
					for p := range n {
						if !gives(me, p) {
							continue
						}
						b := make([]byte, length)
						for i := range b {
							b[i] = byteOf(me, p, k, i)
						}
						e.GiveShort(p, b)
					}
					pause()
					for p := range n {
						if !gives(p, me) {
							continue
						}
						got, err := e.TakeShort(p, length)
						if err != nil {
							return err
						}
						for i, b := range got {
							if b != byteOf(p, me, k, i) {
								return fmt.Errorf("rank %d, exchange %d: byte %d of %d from %d is wrong", me, k, i, length, p)
							}
						}
					}
					if err := e.EndShort(); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// beforeWrap has an engine go on as if so many messages had passed with each peer.
func beforeWrap(e *Engine, passed uint64) {
	for i := range e.shorts.peers {
		p := &e.shorts.peers[i]
		if p.in == nil {
			continue
		}
		p.sent, p.heard, p.taken, p.said = passed, passed, passed, passed
		slots := e.shorts.slots
		for k := passed - slots + 1; k <= passed; k++ {
			p.in.slots[(k-1)%slots].word.Store(k << shortSignatureBits)
		}
	}
}

// TestShortsAhead: a rank that gives and takes nothing is ahead by a ring at most, of
// bodies if its messages are long, and what ends its call ends its wait.
func TestShortsAhead(t *testing.T) {
	for n, ahead := range map[int]int{1: shortSlots, 9 * shortLine: shortSlots, 9*shortLine + 1: shortLongs, ShortBytes: shortLongs} {
		t.Run(fmt.Sprintf("%d bytes", n), func(t *testing.T) {
			shortsAhead(t, tiny(2).Crowded(), n, ahead)
			shortsAhead(t, tiny(2), n, shortLongs)
		})
	}
}

func shortsAhead(t *testing.T, l Layout, n, ahead int) {
	es := open(t, l, nil)
	message := func(k int) []byte { return bytes.Repeat([]byte{byte(k)}, n) }
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	e, given := es[0], 0
	for {
		e.Begin(ctx, time.Minute, uint64(given+1), 7)
		e.BeginShort()
		if given == ahead {
			time.AfterFunc(10*time.Millisecond, cancel)
		}
		e.GiveShort(1, message(given))
		if err := e.EndShort(); err != nil {
			require.ErrorIs(t, err, context.Canceled)
			break
		}
		given++
		require.LessOrEqual(t, given, ahead)
	}
	require.Equal(t, ahead, given)
	for k := range given { // the other has all of them
		es[1].Begin(context.Background(), time.Minute, uint64(k+1), 7)
		es[1].BeginShort()
		got, err := es[1].TakeShort(0, n)
		require.NoError(t, err)
		require.Equal(t, message(k), got)
		require.NoError(t, es[1].EndShort())
	}
	e.Begin(context.Background(), time.Minute, uint64(given+1), 7)
	e.BeginShort()
	e.GiveShort(1, message(given)) // there is room again
	require.NoError(t, e.EndShort())
}

// TestShortsOwed: a rank that took some short messages and then waits for a long one, which it
// may answer, says before that what it is done with, since the other may wait for room.
func TestShortsOwed(t *testing.T) {
	takens := []int{0, 1, 2, 3, 4, 5, 8, shortSlots/2 - 1, shortSlots / 2, shortSlots/2 + 1, shortSlots - 1}
	for i := range 4 * len(takens) {
		taken, answers := takens[i/4], i%4 > 1
		l := tiny(2)
		if i%2 == 1 {
			l = l.Crowded()
		}
		es := open(t, l, nil)
		together(t, 2, func(me int) error {
			for k := range taken + 1 {
				n := 8
				if k == taken {
					n = 1000
				}
				e := es[me]
				e.Begin(context.Background(), 20*time.Second, uint64(k+1), 7)
				e.BeginShort()
				both := k == taken && answers
				if me == 0 || both {
					e.GiveShort(1-me, make([]byte, n))
				}
				if me == 1 {
					time.Sleep(time.Millisecond / 4)
				}
				if me == 1 || both {
					if _, err := e.TakeShort(1-me, n); err != nil {
						return err
					}
				}
				if err := e.EndShort(); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// TestShortMismatch: ranks in different calls find that out by their shorts.
func TestShortMismatch(t *testing.T) {
	es := open(t, tiny(2), nil)
	errs := make([]error, 2)
	together(t, 2, func(me int) error {
		e := es[me]
		e.Begin(context.Background(), time.Minute, 1, 77+uint32(me))
		e.BeginShort()
		e.GiveShort(1-me, []byte{1})
		_, errs[me] = e.TakeShort(1-me, 1)
		return nil
	})
	for me, err := range errs {
		var m *MismatchError
		require.ErrorAs(t, err, &m)
		require.Equal(t, 1-me, m.Peer)
		require.Equal(t, uint32(77+me), m.Want.Signature)
		require.Equal(t, uint32(77+1-me), m.Got.Signature)
	}
}
