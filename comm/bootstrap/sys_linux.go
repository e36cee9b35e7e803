package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// multiProcess says whether ranks may be processes on this system.
const multiProcess = true

func abstractAddr(name string) *net.UnixAddr {
	return &net.UnixAddr{Name: "@" + name, Net: "unixpacket"}
}

// listenUnix listens at an abstract name, of which nothing stays behind
// however the process ends.
func listenUnix(name string) (net.Listener, error) {
	return net.ListenUnix("unixpacket", abstractAddr(name))
}

func dialUnix(ctx context.Context, name string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unixpacket", "@"+name)
}

func isAddrInUse(err error) bool { return errors.Is(err, unix.EADDRINUSE) }

// peerUID returns the user at the other end of a Unix socket: of the process
// that dialed, or of the one that called listen.
func peerUID(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); cerr != nil {
		return 0, cerr
	}
	if err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}

// A packetRoom has room for one frame and its descriptors, made at the first read.
type packetRoom struct{ buf, oob []byte }

func (c *conn) readPacket() (frame, error) {
	if c.buf == nil {
		c.buf = make([]byte, maxFrame)
		c.oob = make([]byte, unix.CmsgSpace(4*MaxFiles)+unix.CmsgSpace(unix.SizeofUcred))
	}
	n, oobn, flags, _, err := c.unix.ReadMsgUnix(c.buf, c.oob) // sets MSG_CMSG_CLOEXEC
	if errors.Is(err, unix.ECONNRESET) {
		// The peer closed with unread packets of ours. Those that it sent
		// before are still to be had; the kernel reports the reset only once.
		n, oobn, flags, _, err = c.unix.ReadMsgUnix(c.buf, c.oob)
	}
	files, ferr := parseRights(c.oob[:max(oobn, 0)])
	if err != nil {
		closeFiles(files)
		var op *net.OpError
		if errors.As(err, &op) && op.Err == io.EOF {
			err = io.EOF
		}
		return frame{}, err
	}
	if n == 0 {
		closeFiles(files)
		return frame{}, io.EOF
	}
	var f frame
	var want int
	switch {
	case ferr != nil:
		err = ferr
	case flags&unix.MSG_TRUNC != 0:
		err = fmt.Errorf("%w: packet longer than %d bytes", ErrProtocol, maxFrame)
	default:
		f, want, err = decodePacket(c.buf[:n])
		if err == nil && flags&unix.MSG_CTRUNC != 0 {
			// No room for them (limit on open files?). Who needs them must say so; the
			// peer is alive and well.
			closeFiles(files)
			files = nil
		} else if err == nil && want != len(files) {
			err = fmt.Errorf("%w: %d descriptors, not %d", ErrProtocol, len(files), want)
		}
	}
	if err != nil {
		closeFiles(files)
		return frame{}, err
	}
	f.files = files
	return f, nil
}

func parseRights(oob []byte) ([]*os.File, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	cmsgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("%w: control message: %v", ErrProtocol, err)
	}
	var files []*os.File
	for i := range cmsgs {
		if cmsgs[i].Header.Level != unix.SOL_SOCKET || cmsgs[i].Header.Type != unix.SCM_RIGHTS {
			continue
		}
		fds, err := unix.ParseUnixRights(&cmsgs[i])
		if err != nil {
			closeFiles(files)
			return nil, fmt.Errorf("%w: descriptors: %v", ErrProtocol, err)
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}

func (c *conn) writePacket(b []byte, files []*os.File) error {
	var oob []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fd, err := fdOf(f)
			if err != nil {
				return err
			}
			fds[i] = fd
		}
		oob = unix.UnixRights(fds...)
		defer runtime.KeepAlive(files)
	}
	for {
		_, _, err := c.unix.WriteMsgUnix(b, oob, nil)
		if !errors.Is(err, unix.ETOOMANYREFS) {
			return err
		}
		time.Sleep(time.Millisecond) // too many descriptors under way: the peer must take some first
	}
}

// fdOf returns f's descriptor without putting the file into blocking mode,
// which f.Fd would do for all who share it.
func fdOf(f *os.File) (int, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	err = raw.Control(func(p uintptr) { fd = int(p) })
	return fd, err
}

// dupFile returns a descriptor of its own for f's file.
func dupFile(f *os.File) (*os.File, error) {
	if f == nil {
		return nil, os.ErrInvalid
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	if cerr := raw.Control(func(p uintptr) {
		fd, err = unix.FcntlInt(p, unix.F_DUPFD_CLOEXEC, 0)
	}); cerr != nil {
		return nil, cerr
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// nodeID is equal for two processes exactly when abstract sockets, and with
// them descriptors, pass between them: same kernel, same network namespace.
func nodeID() string {
	id := "host:" + hostname()
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		id = strings.TrimSpace(string(b))
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &st); err == nil {
		id += fmt.Sprintf("/net:%d:%d", st.Dev, st.Ino)
	}
	return id
}

// affinity returns the CPUs that this process may run on.
func affinity() []int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(os.Getpid(), &set); err != nil {
		return nil
	}
	cpus := make([]int, 0, set.Count())
	for i := 0; len(cpus) < set.Count() && i < maxCPUs; i++ {
		if set.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	return cpus
}

// proxyIdentity names the process that started the ranks of this node: the
// creator of the socket pair that PMI_FD is one end of, else the parent.
func proxyIdentity(pmiFD string) string {
	pid := os.Getppid()
	if fd, err := strconv.Atoi(pmiFD); err == nil && fd >= 0 {
		if cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil && cred.Pid > 0 {
			pid = int(cred.Pid)
		}
	}
	return fmt.Sprintf("proxy=%d,start=%s", pid, startTime(pid))
}

// startTime tells apart processes that have had the same id.
func startTime(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	if fields := strings.Fields(rest); len(fields) > 19 {
		return fields[19]
	}
	return ""
}
