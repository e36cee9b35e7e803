package bootstrap

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
)

// A local is the channel of one of several ranks in this process. boxes is
// shared by them: boxes[to][from].
type local struct {
	rank  int
	peers []Peer
	boxes [][]*inbox

	startOnce sync.Once
	closeOnce sync.Once
	closed    atomic.Bool
}

// Local returns the channels of n ranks in this process. They keep the same
// promises as those between processes, and carry Ref. It returns nil when n is
// less than one.
func Local(n int) []Channel {
	if n < 1 {
		return nil
	}
	me := Peer{Host: hostname(), Node: nodeID(), PID: os.Getpid(), CPUs: affinity()}
	peers := make([]Peer, n)
	boxes := make([][]*inbox, n)
	for to := range n {
		peers[to] = me
		peers[to].Rank = to
		boxes[to] = make([]*inbox, n)
		for from := range n {
			boxes[to][from] = newInbox(from)
		}
	}
	channels := make([]Channel, n)
	for r := range channels {
		channels[r] = &local{rank: r, peers: peers, boxes: boxes}
	}
	return channels
}

func (c *local) Rank() int      { return c.rank }
func (c *local) Size() int      { return len(c.peers) }
func (c *local) Source() string { return "local" }

func (c *local) Peer(rank int) Peer {
	if rank < 0 || rank >= len(c.peers) {
		return Peer{Rank: rank}
	}
	p := c.peers[rank]
	p.CPUs = slices.Clone(p.CPUs)
	return p
}

func (c *local) Start(h Handler) {
	c.startOnce.Do(func() {
		for _, b := range c.boxes[c.rank] {
			b.start(h)
		}
	})
}

func (c *local) Send(to int, m Message) error {
	if err := checkMessage(to, len(c.peers), &m); err != nil {
		return err
	}
	if c.closed.Load() {
		return ErrChannelClosed
	}
	err := c.boxes[to][c.rank].send(m)
	if to == c.rank {
		return err
	}
	switch err {
	case ErrUnresponsive: // each is lost to the other
		err = &PeerError{to, ErrUnresponsive}
		c.boxes[to][c.rank].gone(&PeerError{c.rank, nil})
		c.boxes[c.rank][to].gone(err)
	case ErrChannelClosed: // unless it was this side that closed
		if !c.closed.Load() {
			err = &PeerError{to, errGoodbye}
		}
	}
	return err
}

func (c *local) Close(ctx context.Context) (err error) {
	c.closeOnce.Do(func() {
		ctx, cancel := bounded(ctx, DefaultCloseTimeout)
		defer cancel()
		c.closed.Store(true)
		c.Start(discard{})
		for r := range c.peers {
			if r != c.rank {
				c.boxes[r][c.rank].gone(nil)
				c.boxes[c.rank][r].gone(nil)
			}
		}
		c.boxes[c.rank][c.rank].end()
		for _, b := range c.boxes[c.rank] {
			select {
			case <-b.done:
			case <-ctx.Done():
				err = fmt.Errorf("weft: close: a handler has not returned: %w", ctx.Err())
				return
			}
		}
	})
	return err
}
