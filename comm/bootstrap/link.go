package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// maxQueue bounds what may wait for one peer, in bytes. A peer that lets
	// more pile up is given up.
	maxQueue = 16 << 20
	// fileCost is what a waiting descriptor counts.
	fileCost = 4 << 10
)

// An outgoing is a frame that waits to be written. files are our own duplicates.
type outgoing struct {
	data  []byte
	files []*os.File
	done  chan struct{} // closed when written or given up; may be nil
}

func (o *outgoing) cost() int { return len(o.data) + fileCost*len(o.files) }

func (o *outgoing) drop() {
	closeFiles(o.files)
	if o.done != nil {
		close(o.done)
	}
}

// A link is the connection to one peer. A reader goroutine hands on what
// arrives. What is sent goes through a queue, which a goroutine that lives as
// long as there is something in it writes out.
type link struct {
	mesh *mesh
	peer int
	conn *conn

	mu      sync.Mutex
	queue   []outgoing
	bytes   int   // cost of queue and of what is being written
	busy    bool  // the writer runs
	broken  bool  // nothing can be written any more
	closing bool  // the goodbye is queued
	down    error // why Send fails; nil while it doesn't

	goodbye   chan struct{} // closed when our goodbye is written or can't be
	parted    chan struct{} // closed when the peer has said goodbye
	confirmed chan struct{} // closed when the peer has seen our goodbye
	ended     chan struct{} // closed when nothing more will arrive
}

func newLink(m *mesh, peer int, c *conn) *link {
	c.keepAlive()
	return &link{
		mesh: m, peer: peer, conn: c,
		goodbye: make(chan struct{}), parted: make(chan struct{}), confirmed: make(chan struct{}), ended: make(chan struct{}),
	}
}

// send queues a message.
func (l *link) send(msg *Message) error {
	f := frame{typ: frameMessage, kind: msg.Kind, comm: msg.Comm, seq: msg.Seq, data: msg.Data}
	for _, file := range msg.Files {
		dup, err := dupFile(file)
		if err != nil {
			closeFiles(f.files)
			return fmt.Errorf("weft: send to rank %d: %w: %w", l.peer, ErrMessage, err)
		}
		f.files = append(f.files, dup)
	}
	o := outgoing{data: f.encode(), files: f.files}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.down
	switch {
	case l.closing:
		err = ErrChannelClosed
	case err == nil && l.bytes+o.cost() > maxQueue:
		l.breakLocked(ErrUnresponsive)
		err = l.down
		l.conn.Close() // wakes the reader, which tells the handler
	}
	if err != nil {
		o.drop()
		return err
	}
	l.push(o)
	return nil
}

// push queues o, or drops it when it can't be written. l.mu is held.
func (l *link) push(o outgoing) {
	if l.broken {
		o.drop()
		return
	}
	l.queue = append(l.queue, o)
	l.bytes += o.cost()
	if !l.busy {
		l.busy = true
		l.mesh.wg.Go(l.writeLoop)
	}
}

func (l *link) writeLoop() {
	for {
		l.mu.Lock()
		if len(l.queue) == 0 || l.broken {
			l.busy = false
			l.mu.Unlock()
			return
		}
		batch := l.queue
		l.queue = nil
		l.mu.Unlock()
		failed := false
		for i := range batch {
			if !failed && len(batch[i].data) > 0 { // else a mark, see Flush
				if err := l.conn.writeEncoded(batch[i].data, batch[i].files); err != nil {
					// Before anybody is told that there is no more to wait for: Close,
					// which finds that sending has failed, then lets the reader end.
					l.writeFailed(err)
					failed = true
				}
			}
			cost := batch[i].cost()
			batch[i].drop()
			batch[i] = outgoing{}
			l.mu.Lock()
			l.bytes -= cost
			l.mu.Unlock()
		}
	}
}

// writeFailed ends sending. When the peer has closed its end, the reader finds
// that by itself, after the peer's last message; else it must be told.
func (l *link) writeFailed(err error) {
	l.mesh.log.Debug("weft: write", "peer", l.peer, "error", err)
	l.mu.Lock()
	if l.closing && (errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed)) {
		err = nil // Close has run out of time; that is not the peer's end
	}
	l.breakLocked(err)
	l.mu.Unlock()
	if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		l.conn.Close()
	}
}

// breakLocked gives up sending, because of err unless that is nil. l.mu is held.
func (l *link) breakLocked(err error) {
	l.broken = true
	if l.down == nil && err != nil {
		l.down = &PeerError{l.peer, err}
	}
	for i := range l.queue {
		l.queue[i].drop()
	}
	l.queue, l.bytes = nil, 0
}

// sayGoodbye queues the last frame that Close sends.
func (l *link) sayGoodbye() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing = true
	l.push(outgoing{data: (&frame{typ: frameGoodbye}).encode(), done: l.goodbye})
}

// flushed waits until all that was queued is written, and says whether it was,
// or never can be because the peer is gone.
func (l *link) flushed(ctx context.Context) bool {
	select {
	case <-l.goodbye:
	case <-l.ended:
	case <-ctx.Done():
		select {
		case <-l.goodbye:
		default:
			l.conn.SetWriteDeadline(time.Unix(1, 0))
			return false
		}
	}
	l.mu.Lock()
	broken := l.broken
	l.mu.Unlock()
	if broken { // the peer has closed its end: take its last words, perhaps a goodbye
		select {
		case <-l.ended:
		case <-ctx.Done():
		}
	}
	return true
}

func (l *link) hasParted() bool {
	select {
	case <-l.parted:
		return true
	default:
		return false
	}
}

// readLoop hands on what arrives until the connection ends, then says that the
// peer is gone.
func (l *link) readLoop() {
	err := l.receive()
	l.mu.Lock()
	var gone error
	if !l.closing || l.down != nil || !errors.Is(err, net.ErrClosed) {
		if l.down == nil {
			l.down = &PeerError{l.peer, seen(err)}
		}
		gone = l.down
	}
	l.breakLocked(nil)
	l.mu.Unlock()
	l.conn.Close()
	close(l.ended)
	if l.hasParted() {
		return // the handler knows
	}
	l.mesh.log.Debug("weft: peer gone", "peer", l.peer, "error", gone)
	l.handler().HandleGone(l.peer, gone)
}

// seen describes the end of a connection to people.
func seen(err error) error {
	if isEnd(err) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// receive returns why nothing more will come.
func (l *link) receive() error {
	for {
		f, err := l.conn.read()
		if err != nil {
			return err
		}
		parted := l.hasParted()
		switch {
		case f.typ == frameMessage && !parted:
			l.handler().HandleMessage(l.peer, Message{Kind: f.kind, Comm: f.comm, Seq: f.seq, Data: f.data, Files: f.files})
		case f.typ == frameGoodbye && !parted:
			l.part()
		case f.typ == frameSeen:
			select {
			case <-l.confirmed:
				return fmt.Errorf("%w: two confirmations", ErrProtocol)
			default:
				close(l.confirmed)
			}
		default:
			closeFiles(f.files)
			return fmt.Errorf("%w: type %d", ErrProtocol, f.typ)
		}
	}
}

// part takes the peer's goodbye. The connection stays for ours.
func (l *link) part() {
	l.mu.Lock()
	if l.down == nil {
		l.down = &PeerError{l.peer, errGoodbye}
	}
	l.push(outgoing{data: (&frame{typ: frameSeen}).encode()})
	l.mu.Unlock()
	close(l.parted)
	l.handler().HandleGone(l.peer, nil)
}

// handler waits for Start.
func (l *link) handler() Handler {
	<-l.mesh.started
	return l.mesh.handler
}
