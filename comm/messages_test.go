package comm

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport/progress"
)

// TestNonsenseMessage: a message that is none ends the communicator, also on a
// rank that waits in a collective, and the error says from whom it came.
func TestNonsenseMessage(t *testing.T) {
	ctx := context.Background()
	recv := Call{Collective: OpRecv, Root: AnySource, Tag: 3, Count: 1, Type: kernels.TypeInt8}
	for _, c := range []struct {
		name string
		call func(c *Communicator) error
	}{
		{"Recv", func(c *Communicator) error { _, err := c.RunMessage(ctx, recv, make([]byte, 1)); return err }},
		{"started", func(c *Communicator) error {
			m, err := c.StartMessage(ctx, recv, make([]byte, 1))
			if err == nil {
				<-m.Done()
				err = m.Err()
			}
			return err
		}},
		{"Split", func(c *Communicator) error { _, err := c.Split(ctx, 0, 0); return err }},
		{"a collective", func(c *Communicator) error {
			e, err := c.Begin(ctx, Call{Collective: OpBarrier})
			if err == nil {
				_, err = e.Recv(1, 0)
				err = c.End(err)
			}
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cs, err := Local(2, WithTimeout(10*time.Second))
			require.NoError(t, err)
			defer cs[1].Close()
			defer cs[0].Close()
			failed := make(chan error, 1)
			go func() { failed <- c.call(cs[0]) }()
			ok, err := cs[1].engine.Mail().TrySend(0, &[progress.MailHead]byte{99}, nil)
			require.NoError(t, err)
			require.True(t, ok)
			err = <-failed
			var abort *AbortError
			require.ErrorAs(t, err, &abort)
			require.Equal(t, ReasonFailed, abort.Reason)
			require.ErrorContains(t, err, "from rank 1: a message of kind 99")
			require.NotContains(t, err.Error(), "collective 0")
			require.Eventually(t, func() bool { return errors.Is(cs[1].AsyncErr(), ErrAborted) }, 10*time.Second, time.Millisecond)
		})
	}
}
