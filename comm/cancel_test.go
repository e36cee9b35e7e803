package comm

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport"
)

// TestCanceledSetup cancels one rank's context at some moment of a Split, Dup or Alloc:
// the record says so on all ranks, whatever they were doing.
func TestCanceledSetup(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, kind := range []string{"Split", "Dup", "Alloc"} {
		for range 15 {
			cs, err := Local(3, WithTransport("fabric"), WithTimeout(20*time.Second))
			require.NoError(t, err)
			after := time.Duration(rng.IntN(400)) * time.Microsecond
			errs, later := make([]error, 3), make([]error, 3)
			var wg sync.WaitGroup
			for r, c := range cs {
				wg.Go(func() {
					ctx := context.Background()
					if r == 0 {
						canceled, cancel := context.WithCancel(ctx)
						defer cancel()
						time.AfterFunc(after, cancel)
						ctx = canceled
					}
					var child *Communicator
					switch kind {
					case "Split":
						child, errs[r] = c.Split(ctx, 1, r)
					case "Dup":
						child, errs[r] = c.Dup(ctx)
					default:
						_, errs[r] = Alloc[int32](ctx, c, 1000)
					}
					if child != nil {
						_, err := Alloc[int32](context.Background(), child, 10)
						errs[r] = errors.Join(errs[r], err)
					}
					_, later[r] = Alloc[int32](context.Background(), c, 10)
				})
			}
			wg.Wait()
			for r, err := range errs {
				for _, err := range []error{err, later[r]} {
					if err == nil {
						continue
					}
					var e *AbortError
					require.ErrorAs(t, err, &e, "%s, rank %d", kind, r)
					require.Equal(t, ReasonCanceled, e.Reason, "%s, rank %d: %v", kind, r, err)
					require.NotContains(t, err.Error(), "collective 0")
				}
			}
			for _, c := range cs {
				wg.Go(func() { c.Close() })
			}
			wg.Wait()
		}
	}
}

// TestImportOfCanceled has a rank import memory of another that gave Alloc up when all
// others had theirs: that it is gone is no failure of the rank that finds it so.
func TestImportOfCanceled(t *testing.T) {
	cs, err := Local(3, WithTransport("fabric"), WithTimeout(20*time.Second))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gaveUp := make(chan struct{})
	cs[0].world.transport = beforeImport{cs[0].world.transport, func() { time.AfterFunc(50*time.Millisecond, cancel) }}
	cs[1].world.transport = beforeImport{cs[1].world.transport, func() { <-gaveUp }}
	errs := make([]error, 3)
	var wg sync.WaitGroup
	for r, c := range cs {
		wg.Go(func() {
			ctx := ctx
			if r == 0 {
				defer close(gaveUp)
			} else {
				ctx = context.Background()
			}
			_, errs[r] = Alloc[int32](ctx, c, 1000)
		})
	}
	wg.Wait()
	for r, err := range errs {
		var e *AbortError
		require.ErrorAs(t, err, &e, "rank %d", r)
		require.Equal(t, ReasonCanceled, e.Reason, "rank %d: %v", r, err)
		require.Equal(t, 0, e.Origin)
	}
	for _, c := range cs {
		wg.Go(func() { c.Close() })
	}
	wg.Wait()
}

// TestImportOfClosed is the same with a rank that closes.
func TestImportOfClosed(t *testing.T) {
	cs, err := Local(3, WithTransport("fabric"), WithTimeout(20*time.Second))
	require.NoError(t, err)
	gaveUp := make(chan struct{})
	var wg sync.WaitGroup
	var once sync.Once
	cs[0].world.transport = beforeImport{cs[0].world.transport, func() {
		once.Do(func() { time.AfterFunc(50*time.Millisecond, func() { cs[0].Close() }) })
	}}
	cs[1].world.transport = beforeImport{cs[1].world.transport, func() { <-gaveUp }}
	errs := make([]error, 3)
	for r, c := range cs {
		wg.Go(func() {
			_, errs[r] = Alloc[int32](context.Background(), c, 1000)
			if r == 0 {
				close(gaveUp)
			}
		})
	}
	wg.Wait()
	require.ErrorIs(t, errs[0], ErrClosed)
	for r, err := range errs[1:] {
		// What all had given by then does: then they have their memory.
		if err != nil {
			require.ErrorIs(t, err, ErrPeerClosed, "rank %d", r+1)
		}
	}
	for _, c := range cs {
		wg.Go(func() { c.Close() })
	}
	wg.Wait()
}

// beforeImport is a transport that calls before first in each Import.
type beforeImport struct {
	transport.Transport
	before func()
}

func (t beforeImport) Import(x transport.Exported) (transport.Endpoint, error) {
	t.before()
	return t.Transport.Import(x)
}
