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

// TestShorts has ranks exchange all lengths, and be late so that the others sleep.
func TestShorts(t *testing.T) {
	for n := 2; n <= 5; n++ {
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
				for k := range ShortBytes + 1 {
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
