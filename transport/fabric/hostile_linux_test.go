package fabric

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/mapped"
)

// sealed makes a descriptor as a peer of no good will might.
func sealed(t testing.TB, size int64, seals int) *os.File {
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
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

const allSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// held counts the descriptors of this process and its mappings of shared memory.
func held(t testing.TB) (files, maps int) {
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	b, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return len(fds), strings.Count(string(b), "memfd:")
}

func shared(t testing.TB, opts ...Option) *Transport {
	f, err := NewShared(append(opts, WithFaults(""), WithArena(minArena))...)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// exported makes an endpoint of a rank and exports it.
func exported(t testing.TB, f *Transport) (transport.Endpoint, transport.Memory, transport.Exported) {
	m, err := f.Alloc(4096)
	require.NoError(t, err)
	e, err := f.Create(transport.EndpointConfig{Size: 4096, Counted: true})
	require.NoError(t, err)
	require.NoError(t, e.Ready(t.Context()))
	require.NoError(t, e.Bind(0, m))
	x, err := e.Export()
	require.NoError(t, err)
	t.Cleanup(x.Close)
	return e, m, x
}

// TestForgedHandles: no bit of a handle can be changed, and no handle made up.
func TestForgedHandles(t *testing.T) {
	a, b := shared(t), shared(t)
	_, _, x := exported(t, a)
	files, maps := held(t)
	for i := range x.Handle {
		for bit := range 8 {
			y := x
			y.Handle[i] ^= 1 << bit
			_, err := b.Import(y)
			require.ErrorIs(t, err, transport.ErrHandle, "byte %d, bit %d", i, bit)
			require.ErrorIs(t, b.ImportDevice(y), transport.ErrHandle)
		}
	}
	// What a device says of itself is no endpoint.
	d, err := a.ExportDevice()
	require.NoError(t, err)
	_, err = b.Import(d)
	d.Close()
	require.ErrorIs(t, err, transport.ErrHandle)
	_, err = b.Import(x)
	require.NoError(t, err)
	require.NoError(t, b.Close())
	f, m := held(t)
	require.LessOrEqual(t, f, files)
	require.LessOrEqual(t, m, maps)
}

// TestOwnWithoutDescriptor: an exchange may leave out the descriptor of what comes back
// to its own rank, and of nothing else.
func TestOwnWithoutDescriptor(t *testing.T) {
	a, b := shared(t), shared(t)
	x, err := a.ExportDevice()
	require.NoError(t, err)
	x.Close()
	x.File = nil
	require.NoError(t, a.ImportDevice(x))
	require.ErrorIs(t, b.ImportDevice(x), transport.ErrHandle)
	for i := range x.Handle {
		y := x
		y.Handle[i] ^= 1
		require.ErrorIs(t, a.ImportDevice(y), transport.ErrHandle, "byte %d", i)
	}
}

// TestRefusedDescriptors: what comes with a handle must be a device, sealed.
func TestRefusedDescriptors(t *testing.T) {
	a, b := shared(t), shared(t)
	_, _, x := exported(t, a)
	pipe, w, err := os.Pipe()
	require.NoError(t, err)
	defer pipe.Close()
	defer w.Close()
	regular, err := os.Create(t.TempDir() + "/file")
	require.NoError(t, err)
	defer regular.Close()
	require.NoError(t, regular.Truncate(minArena))
	gone := sealed(t, minArena, allSeals)
	gone.Close()
	readOnly, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", x.File.Fd()))
	require.NoError(t, err)
	defer readOnly.Close()
	cases := []struct {
		name string
		file *os.File
	}{
		{"none", nil}, {"closed", gone}, {"pipe", pipe}, {"regular file", regular}, {"empty", sealed(t, 0, allSeals)},
		{"not sealed", sealed(t, minArena, 0)}, {"may grow", sealed(t, minArena, allSeals&^unix.F_SEAL_GROW)},
		{"may shrink", sealed(t, minArena, allSeals&^unix.F_SEAL_SHRINK)}, {"zeros", sealed(t, minArena, allSeals)},
		{"small", sealed(t, 4096, allSeals)},
	}
	d, err := b.ExportDevice() // so that it is there
	require.NoError(t, err)
	d.Close()
	files, maps := held(t)
	for _, c := range cases {
		_, err := b.Import(transport.Exported{Handle: x.Handle, File: c.file})
		require.ErrorIs(t, err, transport.ErrHandle, c.name)
	}
	_, err = b.Import(transport.Exported{Handle: x.Handle, File: readOnly})
	require.ErrorIs(t, err, transport.ErrHandle, "read-only")
	_, err = b.Import(transport.Exported{Handle: x.Handle, Ref: a.own})
	require.ErrorIs(t, err, transport.ErrHandle, "by reference")
	f, m := held(t)
	require.LessOrEqual(t, f, files)
	require.Equal(t, maps, m)
}

// abuse uses an imported endpoint in every way. Nothing may fault or panic.
func abuse(t testing.TB, f *Transport, e transport.Endpoint) {
	c, err := f.NewCompletion(1)
	require.NoError(t, err)
	b := make([]byte, 4096)
	for range 8 {
		if ok, err := e.(*endpoint).query(); ok || err != nil {
			break
		}
	}
	for _, off := range []uint64{0, 256, 4080, 1 << 20, 1<<64 - 16} {
		h := transport.Handle{ID: e.ID(), Offset: off}
		_ = f.Put(c, h, b[:16])
		_ = f.PutCounted(c, h, b[:256], 1024)
		_ = f.Get(c, b, h)
		_ = f.Red(c, h, b[:32], transport.RedAdd, kernels.TypeUint64)
		_ = f.Atom(c, b[:8], h, b[:8], transport.RedAdd, kernels.TypeUint64)
		_ = f.PutMultimem(c, h, b[:32])
		_ = f.PullRed(c, b[:32], h, transport.RedAdd, kernels.TypeUint64)
	}
	require.NoError(t, c.Submit())
	require.NoError(t, c.Arrive())
	for !c.Test() {
		f.Step()
	}
	_, err = c.Report()
	require.NoError(t, err)
}

// TestHostileBlocks: a peer writes anything into the block of its endpoint, at any
// time. Operations fail or do not; they touch nothing outside the peer's device.
func TestHostileBlocks(t *testing.T) {
	for _, mode := range []Mode{ModeDefault, ModeStrict, ModeFast} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel() // most of it is waiting for owners that are stuck
			seed := rand.Uint64()
			t.Logf("seed %#x", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			words := []uint64{0, 1, 2, 16, 255, 256, 4095, 4096, 8192, 1 << 20, minArena - 4096, minArena, minArena + 4096, 1 << 31, 1 << 32, 1<<63 - 1, 1 << 63, 1<<64 - 1, 1<<64 - 4096}
			for range 12 {
				a := shared(t, WithMode(mode))
				b := shared(t, WithMode(mode))
				own, _, x := exported(t, a)
				e, err := b.Import(x)
				require.NoError(t, err)
				require.NoError(t, e.Ready(t.Context()))
				blk := own.(*endpoint).blk
				for range 20 {
					for range 1 + rng.IntN(8) {
						at := uint64(rng.IntN(blockBytes/8)) * 8
						if rng.IntN(2) == 0 {
							at = bindingsAt + uint64(rng.IntN(12))*8 // where it hurts
						}
						v := words[rng.IntN(len(words))]
						if rng.IntN(4) == 0 {
							v = rng.Uint64()
						}
						blk.word(at).Store(v)
					}
					if rng.IntN(2) == 0 {
						blk.word(blockBindings).Store(uint64(rng.IntN(3)))
						blk.word(blockNonce).Store(own.(*endpoint).nonce)
						blk.word(blockGen).Store(rng.Uint64() &^ 1)
					}
					abuse(t, b, e)
				}
				_ = e.Destroy()
				_ = b.Close()
				// The owner believes its own memory no more than others do.
				_ = own.Unbind(0, 4096)
				_ = a.Close()
			}
		})
	}
}

// FuzzImport imports any handle, with a device whose head is anything as well.
// The handle is authentic if the device can be read, so that all of it is used.
func FuzzImport(f *testing.F) {
	a, err := NewShared(WithArena(minArena), WithFaults(""))
	require.NoError(f, err)
	e, err := a.Create(transport.EndpointConfig{Size: 4096})
	require.NoError(f, err)
	x, err := e.Export()
	require.NoError(f, err)
	head := make([]byte, headBytes)
	_, err = x.File.ReadAt(head, 0)
	require.NoError(f, err)
	for _, what := range []uint32{handleUnicast, handleMulticast, handleDevice} {
		h := x.Handle
		binary.LittleEndian.PutUint32(h[8:], what)
		f.Add(h[:], head, []byte(e.(*endpoint).blk[:256:256]), true)
		f.Add(h[:], head, []byte{}, false)
	}
	f.Add([]byte{}, []byte{}, []byte{}, false)
	f.Fuzz(func(t *testing.T, text, head, blk []byte, sign bool) {
		var x transport.Exported
		copy(x.Handle[:], text)
		x.File = sealed(t, minArena, allSeals)
		_, err := x.File.WriteAt(head[:min(len(head), headMax)], 0)
		require.NoError(t, err)
		_, err = x.File.WriteAt(blk[:min(len(blk), blockBytes)], headMax)
		require.NoError(t, err)
		if sign && len(head) >= headBytes {
			d := &device{}
			copy(d.secret[:], head[headSecret:])
			mac := d.mac(nil, x.Handle[:handleText])
			copy(x.Handle[handleText:], mac[:])
		}
		b := shared(t)
		_ = b.ImportDevice(x)
		in, err := b.Import(x)
		if err != nil {
			require.True(t, errors.Is(err, transport.ErrHandle), "%v", err)
			require.Nil(t, in)
		} else {
			abuse(t, b, in)
		}
		require.NoError(t, b.Close())
	})
}

// FuzzHandle changes an authentic handle: every change is refused.
func FuzzHandle(f *testing.F) {
	a, err := NewShared(WithArena(minArena), WithFaults(""))
	require.NoError(f, err)
	e, err := a.Create(transport.EndpointConfig{Size: 4096})
	require.NoError(f, err)
	x, err := e.Export()
	require.NoError(f, err)
	b, err := NewShared(WithArena(minArena), WithFaults(""))
	require.NoError(f, err)
	f.Add(x.Handle[:])
	f.Add(make([]byte, transport.HandleBytes))
	for i := range transport.HandleBytes {
		h := x.Handle
		h[i]++
		f.Add(h[:])
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		y := x
		clear(y.Handle[:])
		copy(y.Handle[:], text)
		in, err := b.Import(y)
		if y.Handle == x.Handle {
			require.NoError(t, err)
			require.NoError(t, in.Destroy())
			return
		}
		require.ErrorIs(t, err, transport.ErrHandle)
	})
}

// TestNothingLeaks goes through the whole life of everything many times.
func TestNothingLeaks(t *testing.T) {
	cycle := func() {
		a, b := shared(t), shared(t)
		e, m, x := exported(t, a)
		in, err := b.Import(x)
		require.NoError(t, err)
		require.NoError(t, in.Ready(t.Context()))
		c, err := b.NewCompletion(1)
		require.NoError(t, err)
		require.NoError(t, errors.Join(b.Put(c, transport.Handle{ID: in.ID()}, make([]byte, 64)), end(c)))
		y := x
		y.Handle[20]++
		_, err = b.Import(y)
		require.ErrorIs(t, err, transport.ErrHandle)
		x.Close()
		require.NoError(t, in.Destroy())
		require.NoError(t, e.Destroy())
		require.NoError(t, m.Free())
		require.NoError(t, m.Free(), "again")
		require.NoError(t, b.Close())
		require.NoError(t, a.Close())
	}
	cycle()
	files, maps := held(t)
	for range 300 {
		cycle()
	}
	f, p := held(t)
	require.LessOrEqual(t, f, files, "descriptors") // the collector closes those of other tests
	require.LessOrEqual(t, p, maps, "mappings")
}

// TestMemoryAfterClose: memory stays its owner's until it is freed; what was
// mapped of others is given back at once.
func TestMemoryAfterClose(t *testing.T) {
	_, before := held(t)
	a, b := shared(t), shared(t)
	_, m, x := exported(t, a)
	in, err := b.Import(x)
	require.NoError(t, err)
	require.NoError(t, in.Ready(t.Context()))
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
	m.Bytes()[4095] = 1
	_, during := held(t)
	require.Equal(t, before+1, during)
	require.NoError(t, m.Free())
	_, after := held(t)
	require.Equal(t, before, after)
}

// TestArenaFull: want of address space is an error, and what is freed is there
// again, zeroed.
func TestArenaFull(t *testing.T) {
	a := shared(t, WithMode(ModeStrict))
	var all []transport.Memory
	for {
		m, err := a.Alloc(1 << 20)
		if err != nil {
			require.ErrorIs(t, err, unix.ENOMEM)
			break
		}
		for i, b := range m.Bytes() {
			if b != 0 {
				t.Fatalf("byte %d is %#x", i, b)
			}
		}
		copy(m.Bytes(), strings.Repeat("x", 1<<20))
		all = append(all, m)
	}
	require.NotEmpty(t, all)
	require.NoError(t, all[0].Free())
	m, err := a.Alloc(1 << 20)
	require.NoError(t, err)
	require.Equal(t, make([]byte, 1<<20), m.Bytes())
	for _, m := range append(all[1:], m) {
		require.NoError(t, m.Free())
	}
	require.Len(t, a.space.(*sharedSpace).unused.unused, 1)
	require.Equal(t, a.space.(*sharedSpace).arenaAt()%mapped.PageSize(), uint64(0))
}
