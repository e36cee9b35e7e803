//go:build linux

package bootstrap

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A hook is called by a debug message of the channel.
type hook struct {
	slog.Handler
	message string
	call    func()
}

func (h hook) Enabled(context.Context, slog.Level) bool { return true }

func (h hook) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.message {
		h.call()
	}
	return nil
}

// held is a recorder that takes its first message once it is let go.
type held struct {
	*recorder
	entered, let chan struct{}
}

func (h held) HandleMessage(from int, m Message) {
	close(h.entered)
	<-h.let
	h.recorder.HandleMessage(from, m)
}

// TestGoodbyesMeet has a peer say goodbye and close while this rank is still busy with
// what it said before. That our goodbye can't be written any more is no death: Close
// leaves the reader the time to find the peer's.
func TestGoodbyesMeet(t *testing.T) {
	check := leaks(t)
	var l *link
	results := connectAll(t, 20*time.Second, job(2, nil), func(i int, p *party) {
		if i == 0 {
			p.log = slog.New(hook{slog.DiscardHandler, "weft: write", func() {
				// Let Close go as far as it will before the failure is noted.
				for range 50 {
					if l.conn.SetReadDeadline(time.Time{}) != nil {
						return // it has closed the connection
					}
					time.Sleep(time.Millisecond)
				}
			}})
		}
	})
	cs := channels(t, results)
	l = cs[0].(*mesh).links[1]
	h := held{newRecorder(), make(chan struct{}), make(chan struct{})}
	cs[0].Start(h)
	require.NoError(t, cs[1].Send(0, Message{}))
	<-h.entered
	closeAll(t, cs[1:])
	closed := make(chan error)
	go func() { closed <- cs[0].Close(t.Context()) }()
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.down != nil
	}, 10*time.Second, time.Millisecond, "the goodbye was written")
	close(h.let)
	require.NoError(t, h.awaitGone(t, 1).err)
	require.NoError(t, <-closed)
	check()
}
