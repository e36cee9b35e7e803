package bootstrap

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// A conn carries frames: one packet each on a Unix socket (unix != nil), one
// after the other on a TCP stream. One goroutine may read while another writes.
type conn struct {
	net.Conn
	unix       *net.UnixConn
	in         *bufio.Reader // stream only
	packetRoom               // packet only
}

func newConn(c net.Conn) *conn {
	if u, ok := c.(*net.UnixConn); ok {
		return &conn{Conn: c, unix: u}
	}
	return &conn{Conn: c, in: bufio.NewReader(c)}
}

// carriesFiles says whether descriptors can be sent.
func (c *conn) carriesFiles() bool { return c.unix != nil }

// read returns the next frame. Its data and files belong to the caller.
func (c *conn) read() (frame, error) {
	if c.unix != nil {
		return c.readPacket()
	}
	return readFrame(c.in)
}

func (c *conn) write(f *frame) error { return c.writeEncoded(f.encode(), f.files) }

// writeEncoded writes a frame encoded before.
func (c *conn) writeEncoded(b []byte, files []*os.File) error {
	if c.unix != nil {
		return c.writePacket(b, files)
	}
	_, err := c.Conn.Write(b)
	return err
}

// expect reads a frame of the given type; a refusal becomes its error.
func (c *conn) expect(typ frameType) (frame, error) {
	f, err := c.read()
	if err != nil {
		return frame{}, err
	}
	if f.typ == frameRefuse {
		return frame{}, decodeRefusal(f.data)
	}
	if f.typ != typ {
		closeFiles(f.files)
		return frame{}, fmt.Errorf("%w: type %d where %d was due", ErrProtocol, f.typ, typ)
	}
	return f, nil
}

// abortWith closes the connection once ctx ends. The function that it returns
// ends that, and says whether ctx was still alive.
func (c *conn) abortWith(ctx context.Context) func() bool {
	return context.AfterFunc(ctx, func() { c.Close() })
}

// halfClose ends a stream's sending side; the peer still gets all that was written.
func (c *conn) halfClose() {
	if t, ok := c.Conn.(*net.TCPConn); ok {
		t.CloseWrite()
	}
}

// keepAlive lets the kernel notice a peer whose node has vanished.
func (c *conn) keepAlive() {
	if t, ok := c.Conn.(*net.TCPConn); ok {
		t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 5})
		t.SetNoDelay(true)
	}
}

// isEnd says whether err means that the peer's end is closed.
func isEnd(err error) bool { return err == io.EOF || err == io.ErrUnexpectedEOF }
