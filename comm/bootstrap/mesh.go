package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// lingerTimeout bounds how long Close waits for a peer to confirm the goodbye
// on a TCP connection, where closing too early can destroy what is under way.
const lingerTimeout = time.Second

// A mesh is the channel between processes: one connection per peer.
type mesh struct {
	log    *slog.Logger
	source string
	rank   int
	peers  []Peer
	links  []*link // by rank, nil for the own
	self   *inbox  // what the rank sends to itself
	mpi    *mpiSession

	startOnce sync.Once
	started   chan struct{} // closed by Start
	handler   Handler       // may be read once started is closed
	closeOnce sync.Once
	wg        sync.WaitGroup
}

func newMesh(log *slog.Logger, source string, rank int, out *outcome, session *mpiSession) *mesh {
	m := &mesh{
		log: log, source: source, rank: rank, mpi: session,
		peers: make([]Peer, len(out.members)), links: make([]*link, len(out.members)),
		self: newInbox(rank), started: make(chan struct{}),
	}
	for r := range out.members {
		m.peers[r] = out.members[r].peer()
		if r != rank {
			m.links[r] = newLink(m, r, out.links[r])
		}
	}
	for _, l := range m.links {
		if l != nil {
			m.wg.Go(l.readLoop)
		}
	}
	return m
}

func (m *mesh) Rank() int      { return m.rank }
func (m *mesh) Size() int      { return len(m.peers) }
func (m *mesh) Source() string { return m.source }

func (m *mesh) Peer(rank int) Peer {
	if rank < 0 || rank >= len(m.peers) {
		return Peer{Rank: rank}
	}
	p := m.peers[rank]
	p.CPUs = slices.Clone(p.CPUs)
	return p
}

func (m *mesh) Start(h Handler) {
	m.startOnce.Do(func() {
		m.handler = h
		close(m.started)
		m.self.start(h)
	})
}

func (m *mesh) Send(to int, msg Message) error {
	if err := checkMessage(to, len(m.peers), &msg); err != nil {
		return err
	}
	if to == m.rank {
		return m.self.send(msg)
	}
	l := m.links[to]
	if msg.Ref != nil {
		return fmt.Errorf("weft: send to rank %d: %w: a Ref can't leave the process", to, ErrMessage)
	}
	if len(msg.Files) > 0 && !l.conn.carriesFiles() {
		return fmt.Errorf("weft: send to rank %d: %w: files can't leave the node", to, ErrMessage)
	}
	return l.send(&msg)
}

// checkMessage finds messages that no channel carries.
func checkMessage(to, size int, msg *Message) error {
	switch {
	case to < 0 || to >= size:
		return fmt.Errorf("weft: send to rank %d: %w: there are %d ranks", to, ErrMessage, size)
	case len(msg.Data) > MaxData:
		return fmt.Errorf("weft: send to rank %d: %w: %d bytes of data, at most %d", to, ErrMessage, len(msg.Data), MaxData)
	case len(msg.Files) > MaxFiles:
		return fmt.Errorf("weft: send to rank %d: %w: %d files, at most %d", to, ErrMessage, len(msg.Files), MaxFiles)
	}
	return nil
}

// Flush implements [Flusher].
func (m *mesh) Flush(d time.Duration) {
	limit := time.NewTimer(d)
	defer limit.Stop()
	for _, l := range m.links {
		if l == nil {
			continue
		}
		mark := outgoing{done: make(chan struct{})}
		l.mu.Lock()
		l.push(mark)
		l.mu.Unlock()
		select {
		case <-mark.done:
		case <-limit.C:
			return
		}
	}
}

func (m *mesh) Close(ctx context.Context) (err error) {
	m.closeOnce.Do(func() { err = m.close(ctx) })
	return err
}

func (m *mesh) close(ctx context.Context) error {
	ctx, cancel := bounded(ctx, DefaultCloseTimeout)
	defer cancel()
	lastMPI := m.mpi != nil && m.mpi.leave()
	m.Start(discard{}) // unless it has been started: lets the readers read
	var late []int
	for _, l := range m.links {
		if l != nil {
			l.sayGoodbye()
		}
	}
	for r, l := range m.links {
		if l != nil && !l.flushed(ctx) {
			late = append(late, r)
		}
	}
	clean := false
	if lastMPI { // whether MPI can be finalised depends on all
		clean = m.awaitGoodbyes(ctx) && len(late) == 0
	} else {
		m.linger(ctx)
	}
	for _, l := range m.links {
		if l != nil {
			l.conn.Close()
		}
	}
	m.self.end()
	readers := make(chan struct{})
	go func() {
		m.wg.Wait()
		<-m.self.done
		close(readers)
	}()
	var err error
	select {
	case <-readers:
	case <-ctx.Done():
		err = fmt.Errorf("weft: close: the channel is still busy: %w", ctx.Err())
	}
	if len(late) > 0 {
		err = errors.Join(fmt.Errorf("weft: close: messages not delivered to %s: %w", rankList(late), ctx.Err()), err)
	}
	if m.mpi != nil {
		err = errors.Join(err, m.mpi.release(ctx, clean))
	}
	m.log.Debug("weft: closed", "rank", m.rank, "error", err)
	return err
}

// linger waits until peers on TCP have confirmed the goodbye.
func (m *mesh) linger(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lingerTimeout)
	defer cancel()
	for _, l := range m.links {
		if l == nil || l.conn.unix != nil {
			continue
		}
		select {
		case <-l.confirmed:
		case <-l.ended:
		case <-ctx.Done():
			return
		}
	}
}

// awaitGoodbyes waits for every peer's goodbye and says whether all have come.
func (m *mesh) awaitGoodbyes(ctx context.Context) bool {
	for _, l := range m.links {
		if l == nil {
			continue
		}
		select {
		case <-l.parted:
		case <-l.ended:
		case <-ctx.Done():
			return false
		}
		if !l.hasParted() {
			return false
		}
	}
	return true
}
