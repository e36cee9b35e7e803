package bootstrap

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// strangerTimeout bounds how long a connection may take to say who it is.
	strangerTimeout = 5 * time.Second
	// maxStrangers bounds how many may be about to do so at once.
	maxStrangers = 256
)

// A caller is a connection whose other end has proved that it belongs to the job.
type caller struct {
	*hello
	*conn
	purpose purpose
}

// refuse tells the caller why it isn't wanted, and hangs up.
func (c *caller) refuse(e *JoinError) { refuse(c.conn, e) }

func refuse(c *conn, e *JoinError) {
	c.SetWriteDeadline(time.Now().Add(time.Second))
	c.write(&frame{typ: frameRefuse, data: encodeRefusal(e)})
	c.halfClose()
	c.Close()
}

// An acceptor takes connections on some listeners, each in a goroutine of its
// own, finds out who is calling and hands the callers over on a channel. It
// refuses strangers by itself.
type acceptor struct {
	rank     int
	uid      int
	version  int
	log      *slog.Logger
	joinKey  []byte        // nil where nobody may join
	meshKey  []byte        // may be read once meshable is closed
	meshable chan struct{} // closed when the table is known
	callers  chan *caller

	ctx    context.Context // ends with stop
	cancel context.CancelFunc
	lns    []net.Listener
	places chan struct{} // one token per stranger
	wg     sync.WaitGroup
}

func newAcceptor(ctx context.Context, p *party, lns []net.Listener) *acceptor {
	a := &acceptor{
		rank: p.rank, uid: p.uid, version: p.version, log: p.log,
		meshable: make(chan struct{}), callers: make(chan *caller), lns: lns,
		places: make(chan struct{}, maxStrangers),
	}
	if p.rank == 0 {
		a.joinKey = p.key
	}
	a.ctx, a.cancel = context.WithCancel(ctx)
	return a
}

func (a *acceptor) start() {
	for _, ln := range a.lns {
		a.wg.Go(func() { a.serve(ln) })
	}
}

// openMesh lets connections of the mesh in; those that came early have waited.
func (a *acceptor) openMesh(key []byte) {
	a.meshKey = key
	close(a.meshable)
}

// stop closes the listeners and all connections not handed over.
func (a *acceptor) stop() {
	a.cancel()
	for _, ln := range a.lns {
		ln.Close()
	}
	a.wg.Wait()
}

func (a *acceptor) serve(ln net.Listener) {
	for {
		nc, err := ln.Accept()
		if err != nil {
			if a.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			a.log.Debug("weft: accept", "error", err) // e.g. out of descriptors: may pass
			select {
			case <-a.ctx.Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		c := newConn(nc)
		if err := checkUser(c, a.uid); err != nil {
			a.log.Debug("weft: connection refused", "error", err)
			refuse(c, joinError(err, ErrUser, a.rank))
			continue
		}
		select {
		case a.places <- struct{}{}:
		case <-a.ctx.Done():
			c.Close()
			return
		}
		a.wg.Go(func() { a.receive(c) })
	}
}

// receive finds out who is calling.
func (a *acceptor) receive(c *conn) {
	release := sync.OnceFunc(func() { <-a.places })
	defer release()
	stop := c.abortWith(a.ctx)
	call, err := a.identify(c, release)
	if err != nil {
		stop()
		a.log.Debug("weft: connection refused", "from", c.RemoteAddr().String(), "error", err)
		refuse(c, joinError(err, ErrProtocol, a.rank))
		return
	}
	if !stop() {
		c.Close()
		return
	}
	c.SetDeadline(time.Time{})
	select {
	case a.callers <- call:
	case <-a.ctx.Done():
		c.Close()
	}
}

func (a *acceptor) identify(c *conn, known func()) (*caller, error) {
	nonce := newNonce()
	c.SetDeadline(time.Now().Add(strangerTimeout))
	if err := c.write(&frame{typ: frameChallenge, kind: uint8(a.version), data: nonce}); err != nil {
		return nil, err
	}
	f, err := c.expect(frameHello)
	if err != nil {
		return nil, err
	}
	key := a.joinKey
	switch purpose(f.kind) {
	case purposeJoin:
		if key == nil {
			return nil, fmt.Errorf("%w: rank %d is not the one to join at", ErrProtocol, a.rank)
		}
	case purposeMesh:
		select {
		case <-a.meshable:
			key = a.meshKey
		case <-a.ctx.Done():
			return nil, a.ctx.Err()
		}
	default:
		return nil, fmt.Errorf("%w: purpose %d", ErrProtocol, f.kind)
	}
	h, err := decodeHello(f.data, key, nonce)
	if err != nil {
		return nil, err
	}
	if h.To != a.rank {
		return nil, fmt.Errorf("%w: meant for rank %d", ErrAddress, h.To)
	}
	known() // no stranger any more
	c.SetDeadline(time.Now().Add(strangerTimeout))
	return &caller{h, c, purpose(f.kind)}, c.write(&frame{typ: frameWelcome, data: prove(key, "welcome", nonce, f.data)})
}

// checkUser refuses other users' processes where the kernel tells who they are.
func checkUser(c *conn, uid int) error {
	if c.unix == nil {
		return nil
	}
	got, err := peerUID(c.unix)
	if err != nil {
		return fmt.Errorf("%w: %v", ErrUser, err)
	}
	if got != uid {
		return fmt.Errorf("%w: user %d, not %d", ErrUser, got, uid)
	}
	return nil
}

// errRetry marks failures after which another attempt may succeed.
type errRetry struct{ error }

func (e errRetry) Unwrap() error { return e.error }

// An address is one way to reach a rank.
type address struct{ network, name string }

func (a address) String() string { return a.network + " " + a.name }

func (a address) dial(ctx context.Context) (*conn, error) {
	var nc net.Conn
	var err error
	if a.network == "unix" {
		nc, err = dialUnix(ctx, a.name)
	} else {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		var d net.Dialer
		nc, err = d.DialContext(ctx, "tcp", a.name)
	}
	if err != nil {
		return nil, errRetry{err}
	}
	return newConn(nc), nil
}

// call dials addr and introduces this process. What it says of itself may
// depend on the connection, so describe is asked once that is there.
func call(ctx context.Context, addr address, p *party, what purpose, key []byte, describe func(*conn) (*hello, error)) (*conn, error) {
	c, err := addr.dial(ctx)
	if err != nil {
		return nil, err
	}
	stop := c.abortWith(ctx)
	err = introduce(c, p, what, key, describe)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	c.SetDeadline(time.Time{})
	return c, nil
}

func introduce(c *conn, p *party, what purpose, key []byte, describe func(*conn) (*hello, error)) error {
	if err := checkUser(c, p.uid); err != nil {
		return err
	}
	c.SetReadDeadline(time.Now().Add(strangerTimeout))
	f, err := c.expect(frameChallenge)
	if err != nil {
		if j := new(JoinError); errors.As(err, &j) {
			return err
		}
		return errRetry{fmt.Errorf("no challenge: %w", err)}
	}
	c.SetReadDeadline(time.Time{})
	h, err := describe(c)
	if err != nil {
		return err
	}
	data, err := encodeHello(h, key, f.data)
	if err != nil {
		return err
	}
	if err := c.write(&frame{typ: frameHello, kind: uint8(what), data: data}); err != nil {
		return errRetry{err}
	}
	w, err := c.expect(frameWelcome)
	if err != nil {
		if isEnd(err) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ECONNRESET) {
			return errRetry{err}
		}
		return err
	}
	if int(f.kind) != p.version {
		return &JoinError{Err: ErrVersion, Rank: p.rank, Ranks: []int{h.To}, Detail: fmt.Sprintf("version %d, not %d", f.kind, p.version)}
	}
	if !hmac.Equal(w.data, prove(key, "welcome", f.data, data)) {
		return fmt.Errorf("%w: whoever listens at %s does not know it", ErrToken, c.RemoteAddr())
	}
	return nil
}
