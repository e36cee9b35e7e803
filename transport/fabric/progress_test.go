package fabric_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric"
	"github.com/weft-go/weft/transport/progress"
	"github.com/weft-go/weft/transport/transporttest"
)

// makers are the ways to make a fabric that this machine has.
var makers = func() map[string]maker {
	m := map[string]maker{"local": fabric.NewLocal}
	if runtime.GOOS == "linux" {
		m["shared"] = fabric.NewShared
	}
	return m
}()

// everywhere runs a test in every mode of every fabric.
func everywhere(t *testing.T, f func(t *testing.T, one maker, mode fabric.Mode)) {
	for name, one := range makers {
		for _, mode := range modes {
			t.Run(name+"/"+mode.String(), func(t *testing.T) { f(t, one, mode) })
		}
	}
}

// parallel runs f for each of n ranks and wants no error.
func parallel(t testing.TB, n int, f func(rank int) error) {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() {
			if err := f(r); err != nil {
				errs[r] = fmt.Errorf("rank %d: %w", r, err)
			}
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
}

// payload is message i from a to b, of up to most bytes.
func payload(seed uint64, a, b, i, most int) []byte {
	rng := rand.New(rand.NewPCG(seed, uint64(a)<<40|uint64(b)<<32|uint64(i)))
	m := make([]byte, rng.IntN(most+1)+8)
	for o := 0; o+8 <= len(m); o += 8 {
		binary.LittleEndian.PutUint64(m[o:], rng.Uint64())
	}
	return m[:len(m)-8]
}

// TestEngine has the progress engine, which waits for nothing but what the
// contract promises, send messages and use multicast memory on the fabric.
func TestEngine(t *testing.T) {
	const ranks, calls = 3, 120
	everywhere(t, func(t *testing.T, one maker, mode fabric.Mode) {
		seed := rand.Uint64()
		t.Logf("seed %#x", seed)
		ends := transporttest.Exchanges(ranks)
		fabrics := make([]*fabric.Transport, ranks)
		engines := make([]*progress.Engine, ranks)
		for r := range fabrics {
			f, err := one(fabric.WithMode(mode), fabric.WithRank(r), fabric.WithSeed(seed), fabric.WithFaults(""))
			require.NoError(t, err)
			fabrics[r] = f
		}
		parallel(t, ranks, func(r int) (err error) {
			engines[r], err = progress.New(t.Context(), progress.Config{
				Transport: fabrics[r], Rank: r, Layout: progress.Layout{Ranks: ranks, Cells: 2, SlotBytes: 2048},
				Policy: progress.WaitPolicy{InProcess: true}, Stop: progress.NewStop(), Exchange: ends[r],
			})
			return err
		})
		parallel(t, ranks, func(r int) error { return converse(t.Context(), engines[r], seed, calls) })
		parallel(t, ranks, func(r int) error { return reduceTogether(t.Context(), engines[r]) })
		for r := range fabrics {
			require.NoError(t, engines[r].Close())
		}
		for r := range fabrics {
			require.NoError(t, fabrics[r].Close(), "rank %d", r)
		}
	})
}

func converse(ctx context.Context, e *progress.Engine, seed uint64, calls int) error {
	me, n := e.Rank(), e.Ranks()
	for call := range calls {
		e.Begin(ctx, 30*time.Second, uint64(call), 7)
		for p := range n {
			if p != me {
				if err := e.Send(p, payload(seed, me, p, call, e.MessageBytes()-8)); err != nil {
					return fmt.Errorf("send to %d: %w", p, err)
				}
			}
		}
		for p := range n {
			if p == me {
				continue
			}
			want := payload(seed, p, me, call, e.MessageBytes()-8)
			got, err := e.Recv(p, len(want))
			if err != nil {
				return fmt.Errorf("receive from %d: %w", p, err)
			}
			if string(got) != string(want) {
				return fmt.Errorf("message %d from %d differs", call, p)
			}
			if err := e.Release(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// reduceTogether has every rank put its part into the replicas, and pull the sum
// of what each wrote into its own.
func reduceTogether(ctx context.Context, e *progress.Engine) error {
	me, n := e.Rank(), e.Ranks()
	e.Begin(ctx, 30*time.Second, 1000, 7)
	const bytes = 4096
	if err := e.OpenMulti(ctx, bytes, 256); err != nil {
		return err
	}
	own := e.Multi()
	for o := 0; o < bytes/2; o += 8 {
		binary.NativeEndian.PutUint64(own[o:], uint64(o*(me+1)))
	}
	if err := everybody(e); err != nil {
		return err
	}
	got := make([]byte, bytes/2)
	if err := e.PullReduce(got, 0, transport.RedAdd, kernels.TypeUint64); err != nil {
		return err
	}
	for o := 0; o < len(got); o += 8 {
		if v := binary.NativeEndian.Uint64(got[o:]); v != uint64(o*n*(n+1)/2) {
			return fmt.Errorf("sum at %d is %d", o, v)
		}
	}
	mine := make([]byte, 256)
	for i := range mine {
		mine[i] = byte(me + 1)
	}
	if err := e.PutMulti(1, 0, mine); err != nil {
		return err
	}
	if err := everybody(e); err != nil {
		return err
	}
	for r := range n {
		posted, err := e.Board(r, 1)
		if err != nil {
			return err
		}
		for i := range 256 {
			if b := posted[i]; b != byte(r+1) {
				return fmt.Errorf("byte %d of rank %d is %d", i, r, b)
			}
		}
	}
	return nil
}

// everybody is a barrier of messages.
func everybody(e *progress.Engine) error {
	for p := range e.Ranks() {
		if p != e.Rank() {
			if err := e.Send(p, nil); err != nil {
				return err
			}
		}
	}
	for p := range e.Ranks() {
		if p != e.Rank() {
			if _, err := e.Recv(p, 0); err != nil {
				return err
			}
			if err := e.Release(p); err != nil {
				return err
			}
		}
	}
	return nil
}
