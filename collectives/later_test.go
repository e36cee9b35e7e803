package collectives

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// failLater has a call that was enqueued fail on this rank, as a device's kernel would.
func failLater(c *comm.Communicator) (fail func()) {
	var word uint64
	c.SetLater(&word, func() (uint64, error) {
		if atomic.LoadUint64(&word) == 0 {
			return 0, nil
		}
		return 0, errors.New("the kernel failed")
	})
	return func() { atomic.StoreUint64(&word, 1) }
}

// What has failed on a device is returned by the next call, whichever that is, and ends the
// communicator on the other ranks.
func TestFailedLater(t *testing.T) {
	ctx := context.Background()
	x := make([]float32, 4)
	for name, call := range map[string]func(c *comm.Communicator) error{
		"plain":     func(c *comm.Communicator) error { return AllReduce(ctx, c, x, x, kernels.Sum) },
		"barrier":   func(c *comm.Communicator) error { return Barrier(ctx, c) },
		"func":      func(c *comm.Communicator) error { return AllReduceFunc(ctx, c, x, x, func(acc, x []float32) {}) },
		"started":   func(c *comm.Communicator) error { return StartBarrier(ctx, c).Wait(ctx) },
		"send":      func(c *comm.Communicator) error { return Send(ctx, c, x, 1, 3) },
		"startsend": func(c *comm.Communicator) error { return StartSend(ctx, c, x, 1, 3).Wait(ctx) },
		"recv":      func(c *comm.Communicator) error { _, err := Recv(ctx, c, x, 1, 3); return err },
		"many": func(c *comm.Communicator) error {
			return AllReduceMany(ctx, c, [][]float32{x}, kernels.Sum)
		},
		"dup":    func(c *comm.Communicator) error { _, err := c.Dup(ctx); return err },
		"alloc":  func(c *comm.Communicator) error { _, err := comm.Alloc[int32](ctx, c, 5); return err },
		"device": func(c *comm.Communicator) error { _, err := comm.AllocDevice(ctx, c, 5); return err },
		"extend": func(c *comm.Communicator) error {
			_, err := c.Extend(ctx, func() (any, error) { return 1, nil })
			return err
		},
		"enqueue": func(c *comm.Communicator) error {
			_, _, err := c.BeginEnqueue(comm.Call{Collective: comm.OpBarrier})
			return err
		},
		"async": func(c *comm.Communicator) error { return c.AsyncErr() },
	} {
		t.Run(name, func(t *testing.T) {
			cs, err := comm.Local(2, comm.WithTimeout(2*time.Second))
			require.NoError(t, err)
			fail := failLater(cs[0])
			require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error { return Barrier(ctx, c) })...))
			fail()
			var abort *comm.AbortError
			err = call(cs[0])
			require.ErrorAs(t, err, &abort)
			require.Equal(t, comm.ReasonFailed, abort.Reason)
			require.ErrorContains(t, err, "the kernel failed")
			err = Barrier(ctx, cs[1])
			require.ErrorAs(t, err, &abort)
			require.Zero(t, abort.Origin)
			require.ErrorContains(t, err, "the kernel failed")
			for _, err := range each(cs, (*comm.Communicator).Close) {
				require.NoError(t, err, "it has been said")
			}
		})
	}
}

// What no call has said, Close says, and the other ranks learn of it.
func TestFailedLaterClose(t *testing.T) {
	ctx := context.Background()
	cs, err := comm.Local(2, comm.WithTimeout(2*time.Second))
	require.NoError(t, err)
	failLater(cs[0])()
	errs := each(cs, func(c *comm.Communicator) error {
		if c.Rank() == 0 {
			return c.Close()
		}
		return Barrier(ctx, c)
	})
	for _, err := range errs {
		var abort *comm.AbortError
		require.ErrorAs(t, err, &abort)
		require.Zero(t, abort.Origin)
		require.ErrorContains(t, err, "the kernel failed")
	}
	require.NoError(t, cs[1].Close())
}
