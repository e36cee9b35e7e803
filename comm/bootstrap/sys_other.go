//go:build !linux

package bootstrap

import (
	"context"
	"fmt"
	"net"
	"os"
)

// multiProcess says whether ranks may be processes on this system. Elsewhere
// than on Linux there is one process, with as many ranks as [Local] makes.
const multiProcess = false

type packetRoom struct{}

func listenUnix(string) (net.Listener, error)                { return nil, ErrUnsupported }
func dialUnix(context.Context, string) (net.Conn, error)     { return nil, ErrUnsupported }
func isAddrInUse(error) bool                                 { return false }
func peerUID(*net.UnixConn) (int, error)                     { return 0, ErrUnsupported }
func (c *conn) readPacket() (frame, error)                   { return frame{}, ErrUnsupported }
func (c *conn) writePacket(b []byte, files []*os.File) error { return ErrUnsupported }
func dupFile(f *os.File) (*os.File, error)                   { return nil, ErrUnsupported }
func affinity() []int                                        { return nil }
func proxyIdentity(string) string                            { return "" }
func nodeID() string                                         { return fmt.Sprintf("host:%s/pid:%d", hostname(), os.Getpid()) }
