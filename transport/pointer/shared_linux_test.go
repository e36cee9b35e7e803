package pointer

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/mapped"
)

// TestMain lets the test binary be the second process of TestTwoProcesses.
func TestMain(m *testing.M) {
	if os.Getenv("WEFT_TEST_POINTER_PEER") != "" {
		if err := peerProcess(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	peerCounter = 0
	peerWord    = 512
	peerData    = 1024
	peerRounds  = 500
)

var peerEndpoint = transport.EndpointConfig{Size: 64 << 10, Counted: true}

// peerProcess imports descriptor 3 by the handle on standard input, sends its
// own endpoint's back through the memory, and then answers what it is sent.
func peerProcess() error {
	var x transport.Exported
	if _, err := io.ReadFull(os.Stdin, x.Handle[:]); err != nil {
		return err
	}
	x.File = os.NewFile(3, "peer")
	tr := NewShared()
	defer tr.Close()
	ep, err := tr.Import(x)
	x.Close()
	if err != nil {
		return err
	}
	c, err := tr.NewCompletion(1)
	if err != nil {
		return err
	}
	data, word := make([]byte, 4096), make([]byte, 16)
	at := func(off uint64) transport.Handle { return transport.Handle{ID: ep.ID(), Offset: off} }
	for round := uint64(1); round <= peerRounds; round++ {
		for o := 0; o < len(data); o += 8 {
			binary.NativeEndian.PutUint64(data[o:], round*uint64(o+1))
		}
		binary.NativeEndian.PutUint64(word, round)
		if err := tr.PutCounted(c, at(peerData), data, peerCounter); err != nil {
			return err
		}
		if err := tr.Red(c, at(peerWord), word, transport.RedMax, kernels.TypeUint64); err != nil {
			return err
		}
		// The owner answers in its own memory, where this process can only look.
		for {
			old := make([]byte, 8)
			if err := tr.Atom(c, old, at(peerWord+16), make([]byte, 8), transport.RedAdd, kernels.TypeUint64); err != nil {
				return err
			}
			if err := c.Submit(); err != nil {
				return err
			}
			if err := c.Arrive(); err != nil {
				return err
			}
			if _, err := c.Report(); err != nil {
				return err
			}
			if binary.LittleEndian.Uint64(old) >= round {
				break
			}
			time.Sleep(10 * time.Microsecond)
		}
	}
	fmt.Println("done")
	return nil
}

// TestTwoProcesses passes memory to another process, which wakes this one.
func TestTwoProcesses(t *testing.T) {
	tr := NewShared()
	defer tr.Close()
	m, e := bound(t, tr, peerEndpoint)
	defer m.Free()
	x, err := e.Export()
	require.NoError(t, err)
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), "WEFT_TEST_POINTER_PEER=1")
	cmd.ExtraFiles = []*os.File{x.File}
	cmd.Stdin = strings.NewReader(string(x.Handle[:]))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	x.Close()
	defer cmd.Process.Kill()

	bell := m.Doorbell()
	const patience = 20 * time.Second
	for round := uint64(1); round <= peerRounds; round++ {
		for _, w := range []struct{ at, want uint64 }{{peerWord, round}, {peerCounter, 4096 * round}} {
			for m.Load(w.at) < w.want {
				ticket := bell.Arm()
				if m.Load(w.at) < w.want {
					start := time.Now()
					bell.Sleep(ticket, patience)
					require.Less(t, time.Since(start), patience/2, "round %d: not woken", round)
				}
				bell.Disarm()
			}
			require.Equal(t, w.want, m.Load(w.at))
		}
		for o := uint64(0); o < 4096; o += 8 {
			require.Equal(t, round*(o+1), binary.NativeEndian.Uint64(m.Bytes()[peerData+o:]), "round %d at %d", round, o)
		}
		mapped.Word(m.Bytes(), peerWord+16).Store(round)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "done\n", line)
	require.NoError(t, cmd.Wait())
}

// held counts the descriptors of this process and its mappings of shared memory.
func held(t testing.TB) (files, maps int) {
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	b, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return len(fds), strings.Count(string(b), "memfd:weft")
}

// TestNothingLeaks goes through the whole life of endpoints, and of imports that
// fail, many times.
func TestNothingLeaks(t *testing.T) {
	a, b := NewShared(), NewShared()
	cycle := func() {
		m, e := bound(t, a, transport.EndpointConfig{Size: 4096})
		x, err := e.Export()
		require.NoError(t, err)
		in, err := b.Import(x)
		require.NoError(t, err)
		x.Handle[24] ^= 0xff
		x.Handle[25] ^= 0xff
		_, err = b.Import(x)
		require.ErrorIs(t, err, transport.ErrHandle)
		x.Close()
		multi, err := a.JoinMulticast(t.Context(), transport.EndpointConfig{Size: 4096}, 0, 2, m, func(_ context.Context, _ transport.Exported) ([]transport.Exported, error) {
			x, err := e.Export()
			return []transport.Exported{{}, x}, err
		})
		require.NoError(t, err)
		require.NoError(t, multi.Destroy())
		multi, err = a.JoinMulticast(t.Context(), transport.EndpointConfig{Size: 2048}, 0, 2, m, func(_ context.Context, _ transport.Exported) ([]transport.Exported, error) {
			x, err := e.Export()
			return []transport.Exported{{}, x}, err
		})
		require.ErrorIs(t, err, transport.ErrHandle)
		require.NoError(t, multi.Destroy(), "what was made before the error")
		require.NoError(t, in.Destroy())
		require.NoError(t, e.Destroy())
		require.NoError(t, m.Free())
		require.NoError(t, m.Free(), "again")
	}
	cycle()
	runtime.GC() // what the collector would close is closed about now
	files, maps := held(t)
	for range 1000 {
		cycle()
	}
	f, p := held(t)
	require.LessOrEqual(t, f, files, "descriptors")
	require.LessOrEqual(t, p, maps, "mappings")
	require.LessOrEqual(t, len(*a.table.Load()), 8, "ids are used again")
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
}

// TestCloseUnmaps: closing the transport gives imports back.
func TestCloseUnmaps(t *testing.T) {
	a, b := NewShared(), NewShared()
	_, before := held(t)
	m, e := bound(t, a, transport.EndpointConfig{Size: 4096})
	for range 5 {
		x, err := e.Export()
		require.NoError(t, err)
		_, err = b.Import(x)
		require.NoError(t, err)
		x.Close()
	}
	_, during := held(t)
	require.Equal(t, before+6, during)
	require.NoError(t, b.Close())
	require.NoError(t, a.Close())
	require.NoError(t, m.Free())
	_, after := held(t)
	require.Equal(t, before, after)
}

// TestAnonymous: the memory is no file in any file system, and sealed.
func TestAnonymous(t *testing.T) {
	tr := NewShared()
	m, e := bound(t, tr, transport.EndpointConfig{Size: 8 << 20})
	defer m.Free()
	x, err := e.Export()
	require.NoError(t, err)
	defer x.Close()
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", x.File.Fd()))
	require.NoError(t, err)
	require.Equal(t, "/memfd:weft (deleted)", name)
	for _, size := range []int64{0, 4096, 1 << 30} {
		require.Error(t, x.File.Truncate(size))
	}
	flags, err := unix.FcntlInt(x.File.Fd(), unix.F_GETFD, 0)
	require.NoError(t, err)
	require.NotZero(t, flags&unix.FD_CLOEXEC)
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(int(x.File.Fd()), &st))
	require.GreaterOrEqual(t, st.Blocks*512, int64(8<<20), "pages are there from the start")
}

const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// memfd makes a descriptor as a peer of no good will might.
func memfd(t testing.TB, size int64, flags, seals int) *os.File {
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|flags)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "test")
	t.Cleanup(func() { f.Close() })
	require.NoError(t, f.Truncate(size))
	if seals != 0 {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals)
		require.NoError(t, err)
	}
	return f
}

func TestImportRefusesDescriptors(t *testing.T) {
	page := int64(mapped.PageSize())
	h := handle{sharedMemory, true, uint64(page), uint64(page)}
	sealable := unix.MFD_ALLOW_SEALING
	readOnly := func() *os.File {
		f := memfd(t, 2*page, sealable, seals)
		r, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
		require.NoError(t, err)
		t.Cleanup(func() { r.Close() })
		return r
	}
	pipe, w, err := os.Pipe()
	require.NoError(t, err)
	defer pipe.Close()
	defer w.Close()
	regular, err := os.Create(t.TempDir() + "/file")
	require.NoError(t, err)
	defer regular.Close()
	require.NoError(t, regular.Truncate(2*page))
	closed := memfd(t, 2*page, sealable, seals)
	closed.Close()
	tr := NewShared()
	defer tr.Close()
	for _, c := range []struct {
		name string
		file *os.File
		ok   bool
	}{
		{"good", memfd(t, 2*page, sealable, seals), true},
		{"none", nil, false},
		{"closed", closed, false},
		{"unsealed", memfd(t, 2*page, sealable, 0), false},
		{"not sealable", memfd(t, 2*page, 0, 0), false},
		{"may shrink", memfd(t, 2*page, sealable, seals&^unix.F_SEAL_SHRINK), false},
		{"may grow", memfd(t, 2*page, sealable, seals&^unix.F_SEAL_GROW), false},
		{"seals may change", memfd(t, 2*page, sealable, seals&^unix.F_SEAL_SEAL), false},
		{"sealed against writing", memfd(t, 2*page, sealable, seals|unix.F_SEAL_WRITE), false},
		{"read-only", readOnly(), false},
		{"no room for the doorbell", memfd(t, page, sealable, seals), false},
		{"empty", memfd(t, 0, sealable, seals), false},
		{"too large", memfd(t, 3*page, sealable, seals), false},
		{"one byte more", memfd(t, 2*page+1, sealable, seals), false},
		{"pipe", pipe, false},
		{"regular file", regular, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, before := held(t)
			e, err := tr.Import(transport.Exported{Handle: h.encode(), File: c.file})
			if c.ok {
				require.NoError(t, err)
				require.NoError(t, e.Destroy())
			} else {
				require.ErrorIs(t, err, transport.ErrHandle)
				require.Nil(t, e)
			}
			_, after := held(t)
			require.Equal(t, before, after)
		})
	}
	// A handle that claims what the descriptor has not.
	f := memfd(t, 2*page, sealable, seals)
	for _, h := range []handle{
		{sharedMemory, true, uint64(2 * page), uint64(2 * page)},
		{sharedMemory, true, maxMemory, maxMemory},
		{sharedMemory, true, 256, 512},
		{sharedMemory, true, 256, uint64(page) + 256},
	} {
		_, err := tr.Import(transport.Exported{Handle: h.encode(), File: f})
		require.ErrorIs(t, err, transport.ErrHandle, "%+v", h)
	}
	// Shared memory can't be imported by reference.
	m, err := tr.Alloc(4096)
	require.NoError(t, err)
	defer m.Free()
	_, err = tr.Import(transport.Exported{Handle: handle{heapMemory, true, 4096, 4096}.encode(), Ref: m})
	require.ErrorIs(t, err, transport.ErrHandle)
}

// FuzzImport imports any handle with descriptors of any size: it must not panic,
// and what it maps must be there.
func FuzzImport(f *testing.F) {
	for _, h := range []handle{{sharedMemory, true, 4096, 4096}, {heapMemory, false, 256, 4096}, {sharedMemory, false, 256, 8192}} {
		b := h.encode()
		f.Add(b[:], uint32(8192))
		f.Add(b[:], uint32(12288))
	}
	f.Fuzz(func(t *testing.T, b []byte, size uint32) {
		var x transport.Exported
		copy(x.Handle[:], b)
		size %= 1 << 20
		x.File = memfd(t, int64(size), unix.MFD_ALLOW_SEALING, seals)
		heap, err := newHeapMemory(4096)
		require.NoError(t, err)
		x.Ref = heap
		tr := NewShared()
		e, err := tr.Import(x)
		if err != nil {
			require.ErrorIs(t, err, transport.ErrHandle)
			return
		}
		m := e.(*endpoint).imported
		limit := heap.Size()
		if m.kind == sharedMemory {
			limit = uint64(size) - mapped.PageSize()
		}
		require.LessOrEqual(t, e.Size(), m.Size())
		require.LessOrEqual(t, m.Size(), limit)
		all, err := tr.Map(transport.Handle{ID: e.ID()}, e.Size())
		require.NoError(t, err)
		for o := 0; o < len(all); o += 256 {
			all[o]++ // faults if it is not there
		}
		m.bell.Ring()
		require.NoError(t, tr.Close())
	})
}
