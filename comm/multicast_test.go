package comm

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm/bootstrap"
	"github.com/weft-go/weft/transport"
)

// joinHook is a transport whose rank makes multicast memory by the given function.
type joinHook struct {
	transport.Transport
	join func(exchange transport.Exchange, join func(transport.Memory, transport.Exchange) (transport.Endpoint, error)) (transport.Endpoint, error)
}

func (t joinHook) JoinMulticast(ctx context.Context, cfg transport.EndpointConfig, me, n int, mine transport.Memory, exchange transport.Exchange) (transport.Endpoint, error) {
	return t.join(exchange, func(m transport.Memory, x transport.Exchange) (transport.Endpoint, error) {
		if m == nil {
			m = mine
		}
		return t.Transport.JoinMulticast(ctx, cfg, me, n, m, x)
	})
}

// hooked returns communicators on the fabric with transports that have hooks for some
// ranks, and what closes all.
func hooked(t *testing.T, n int, hooks map[int]joinHook, opts ...Option) (cs []*Communicator, done func()) {
	t.Helper()
	roots, err := Local(n, append(opts, WithTransport("fabric"))...)
	require.NoError(t, err)
	cs = make([]*Communicator, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for r, c := range roots {
		if h, ok := hooks[r]; ok {
			h.Transport = c.world.transport
			c.world.transport = h
		}
		wg.Go(func() { cs[r], errs[r] = c.Dup(t.Context()) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	return cs, func() {
		for _, c := range roots {
			wg.Go(func() { c.Close() })
		}
		wg.Wait()
	}
}

// makeMulti is a call that makes multicast memory and then needs all ranks.
func makeMulti(ctx context.Context, c *Communicator) error {
	e, err := c.Begin(ctx, Call{Collective: OpBroadcast, Count: 1})
	if err != nil {
		return err
	}
	if err = e.OpenMulti(ctx, 4096, 4096); err == nil {
		_, err = c.exchange(ctx, bootstrap.Message{})
	}
	return c.End(err)
}

// TestMulticastGivenUp has a rank give up or close in one of the exchanges in which
// multicast memory is made, and another that comes to the end of the one before only
// when it has: all get the error of that rank.
func TestMulticastGivenUp(t *testing.T) {
	for exchange := range 3 {
		for _, closes := range []bool{false, true} {
			t.Run(fmt.Sprintf("exchange=%d/close=%v", exchange, closes), func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				gaveUp := make(chan struct{})
				calls := [2]int{}
				var cs []*Communicator
				var closing sync.WaitGroup
				cs, done := hooked(t, 3, map[int]joinHook{
					0: {join: func(x transport.Exchange, join func(transport.Memory, transport.Exchange) (transport.Endpoint, error)) (transport.Endpoint, error) {
						if exchange == 0 {
							<-gaveUp
						}
						return join(nil, func(ctx context.Context, mine transport.Exported) ([]transport.Exported, error) {
							all, err := x(ctx, mine)
							if calls[0]++; calls[0] == exchange {
								<-gaveUp
							}
							return all, err
						})
					}},
					1: {join: func(x transport.Exchange, join func(transport.Memory, transport.Exchange) (transport.Endpoint, error)) (transport.Endpoint, error) {
						return join(nil, func(ctx context.Context, mine transport.Exported) ([]transport.Exported, error) {
							if calls[1]++; calls[1] == exchange+1 {
								time.AfterFunc(20*time.Millisecond, func() { // when it waits for rank 0
									if !closes {
										cancel()
										return
									}
									closing.Go(func() { cs[1].Close() })
								})
							}
							return x(ctx, mine)
						})
					}},
				}, WithTimeout(20*time.Second))
				errs := make([]error, 3)
				var wg sync.WaitGroup
				for r, c := range cs {
					wg.Go(func() {
						if r != 1 {
							errs[r] = makeMulti(context.Background(), c)
							return
						}
						errs[r] = makeMulti(ctx, c)
						close(gaveUp)
					})
				}
				wg.Wait()
				for r, err := range errs {
					if closes && r == 1 {
						require.ErrorIs(t, err, ErrClosed)
						continue
					}
					var e *AbortError
					require.ErrorAs(t, err, &e, "rank %d", r)
					if closes {
						require.Equal(t, ReasonClosed, e.Reason, "rank %d: %v", r, err)
						require.Equal(t, []int{1}, e.Ranks)
					} else {
						require.Equal(t, ReasonCanceled, e.Reason, "rank %d: %v", r, err)
						require.Equal(t, 1, e.Origin)
					}
				}
				closing.Wait()
				done()
			})
		}
	}
}

// TestMulticastFailure: a rank that can't make its part of multicast memory is the one
// that says why.
func TestMulticastFailure(t *testing.T) {
	cs, done := hooked(t, 4, map[int]joinHook{
		2: {join: func(x transport.Exchange, join func(transport.Memory, transport.Exchange) (transport.Endpoint, error)) (transport.Endpoint, error) {
			time.Sleep(time.Millisecond) // others wait in the first exchange
			return join(foreignMemory{}, func(ctx context.Context, mine transport.Exported) ([]transport.Exported, error) {
				all, err := x(ctx, mine)
				time.Sleep(20 * time.Millisecond) // the others know already
				return all, err
			})
		}},
	})
	errs := make([]error, len(cs))
	var wg sync.WaitGroup
	for r, c := range cs {
		wg.Go(func() { errs[r] = makeMulti(t.Context(), c) })
	}
	wg.Wait()
	for r, err := range errs {
		var e *AbortError
		require.ErrorAs(t, err, &e, "rank %d", r)
		require.Equal(t, ReasonFailed, e.Reason, "rank %d: %v", r, err)
		require.Equal(t, 2, e.Origin, "rank %d: %v", r, err)
		require.ErrorContains(t, err, "memory of another transport", "rank %d", r)
	}
	done()
}

// foreignMemory is none of the fabric's.
type foreignMemory struct{ transport.Memory }

// TestOneDeadline: all waits of a call have one timeout together.
func TestOneDeadline(t *testing.T) {
	const timeout = time.Second
	cs, err := Local(2, WithTimeout(timeout), WithTransport("fabric"))
	require.NoError(t, err)
	call := Call{Collective: OpBarrier}
	over := make(chan struct{})
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for r, c := range cs {
		wg.Go(func() {
			ctx := t.Context()
			_, err := c.Begin(ctx, call)
			if r == 1 {
				time.Sleep(50 * time.Millisecond)
			}
			if err == nil {
				_, err = c.exchange(ctx, bootstrap.Message{})
			}
			if r == 0 {
				defer close(over)
				if err != nil {
					errs[r] = err
					return
				}
				time.Sleep(time.Until(c.engine.Deadline()))
			} else {
				// Much later than rank 0 asks, and sooner than a timeout of its own.
				select {
				case <-over:
				case <-time.After(timeout * 7 / 4):
				}
			}
			if err == nil {
				_, err = c.exchange(ctx, bootstrap.Message{})
			}
			errs[r] = c.End(err)
		})
	}
	wg.Wait()
	var e *AbortError
	require.ErrorAs(t, errs[0], &e)
	require.Equal(t, ReasonTimeout, e.Reason)
	for _, c := range cs {
		wg.Go(func() { c.Close() })
	}
	wg.Wait()
}
