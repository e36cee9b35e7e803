//go:build linux && !android && (amd64 || arm64) && !nocuda

package cuda

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/weft-go/weft/internal/cuda/cudatest"
	"github.com/weft-go/weft/internal/dl"
)

// ptx has kernels for any GPU: fill sets n words to v plus their index, nothing
// does nothing, and crash writes where there is no memory.
const ptx = `
.version 7.0
.target sm_70
.address_size 64

.visible .entry fill(.param .u64 at, .param .u32 v, .param .u32 n)
{
	.reg .pred %p;
	.reg .b32 %i, %b, %t, %n, %v;
	.reg .b64 %at, %off;
	mov.u32 %b, %ctaid.x;
	mov.u32 %t, %ntid.x;
	mov.u32 %i, %tid.x;
	mad.lo.u32 %i, %b, %t, %i;
	ld.param.u32 %n, [n];
	setp.ge.u32 %p, %i, %n;
	@%p bra end;
	ld.param.u64 %at, [at];
	cvta.to.global.u64 %at, %at;
	mul.wide.u32 %off, %i, 4;
	add.u64 %at, %at, %off;
	ld.param.u32 %v, [v];
	add.u32 %v, %v, %i;
	st.global.u32 [%at], %v;
end:
	ret;
}

.visible .entry nothing()
{
	ret;
}

.visible .entry crash()
{
	.reg .b64 %at;
	mov.u64 %at, 4096;
	st.global.u32 [%at], 1;
	ret;
}
`

// gpu returns the contexts of all devices, or skips the test where there are none.
func gpu(t testing.TB) []*Context {
	t.Helper()
	d, err := Load()
	if errors.Is(err, ErrNoDriver) || errors.Is(err, NoDevice) {
		t.Skip("no CUDA device: ", err)
	}
	require.NoError(t, err)
	n, err := d.Devices()
	require.NoError(t, err)
	var all []*Context
	for i := range n {
		dev, err := d.Device(i)
		require.NoError(t, err)
		c, err := dev.Primary()
		require.NoError(t, err)
		t.Cleanup(func() {
			err := c.Release()
			var code Code
			if !errors.As(err, &code) || !code.Fatal() { // as after a crash
				require.NoError(t, err)
			}
		})
		all = append(all, c)
	}
	return all
}

// TestLoad says what this machine has, which may be nothing.
func TestLoad(t *testing.T) {
	d, err := Load()
	again, same := Load()
	require.Equal(t, d, again)
	require.Equal(t, err, same)
	if err == nil {
		require.Greater(t, d.Version(), 11000)
		return
	}
	if errors.Is(err, ErrNoDriver) {
		require.ErrorContains(t, err, "libcuda.so")
		return
	}
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "cuInit", e.Op)
}

func TestGPUDevices(t *testing.T) {
	for _, c := range gpu(t) {
		dev := c.Device()
		name, err := dev.Name()
		require.NoError(t, err)
		require.NotEmpty(t, name)
		uuid, err := dev.UUID()
		require.NoError(t, err)
		require.NotZero(t, uuid)
		bus, err := dev.PCIBusID()
		require.NoError(t, err)
		total, err := dev.TotalBytes()
		require.NoError(t, err)
		major, minor, err := dev.ComputeCapability()
		require.NoError(t, err)
		require.GreaterOrEqual(t, major, 7)
		free, of, err := c.Memory()
		require.NoError(t, err)
		require.LessOrEqual(t, free, of)
		t.Logf("%d: %s %s %s, %d MiB, sm_%d%d, driver %d", dev.Ordinal(), name, uuid, bus, total>>20, major, minor, c.Driver().Version())
		for _, a := range []DeviceAttribute{
			MultiprocessorCount, VirtualMemory, POSIXHandles, FabricHandles, Multicast, MemSyncDomains,
			StreamMemoryOps64, ClusterLaunch, EndpointUnicast, EndpointCountedOps,
		} {
			v, err := dev.Attribute(a)
			t.Logf("attribute %d: %d %v", a, v, err)
		}
		g, err := dev.Granularity(HandlePOSIX)
		require.NoError(t, err)
		require.Zero(t, g%4096)
		least, greatest, err := c.StreamPriorities()
		require.NoError(t, err)
		require.LessOrEqual(t, greatest, least)
		for _, peer := range gpu(t) {
			if peer.Device().Ordinal() == dev.Ordinal() {
				continue
			}
			can, err := dev.CanAccess(peer.Device())
			require.NoError(t, err)
			atomics, err := dev.Link(LinkNativeAtomics, peer.Device())
			require.NoError(t, err)
			t.Logf("to %d: access %v, atomics %d", peer.Device().Ordinal(), can, atomics)
		}
	}
}

func TestGPUMemory(t *testing.T) {
	c := gpu(t)[0]
	const n = 1 << 20
	p, err := c.Alloc(n)
	require.NoError(t, err)
	src := pattern(n, 7)
	got := make([]byte, n)
	require.NoError(t, c.CopyHtoD(p, src))
	require.NoError(t, c.CopyDtoD(p+n/2, p, 1000))
	require.NoError(t, c.Fill8(p, 3, 3))
	require.NoError(t, c.Fill32(p+64, 0x01020304, 2))
	require.NoError(t, c.Synchronize())
	require.NoError(t, c.CopyDtoH(got, p))
	copy(src[n/2:], src[:1000])
	copy(src, []byte{3, 3, 3})
	copy(src[64:], []byte{4, 3, 2, 1, 4, 3, 2, 1})
	require.True(t, bytes.Equal(src, got))

	s, err := c.NewStream(0)
	require.NoError(t, err)
	host, err := c.AllocHost(n)
	require.NoError(t, err)
	start, err := c.NewEvent(true)
	require.NoError(t, err)
	end, err := c.NewEvent(true)
	require.NoError(t, err)
	copy(host.Bytes, pattern(n, 9))
	require.NoError(t, start.Record(s))
	require.NoError(t, s.CopyHtoD(p, host.Bytes))
	require.NoError(t, s.CopyDtoD(p, p+100, 50))
	require.NoError(t, s.Fill8(p+200, 1, 9))
	require.NoError(t, s.Fill32(p+400, 5, 2))
	require.NoError(t, s.Write32(p+500, 0xfedcba98))
	require.NoError(t, s.WaitAtLeast32(p+500, 0xfedcba98))
	require.NoError(t, s.WaitEqual32(p+500, 0xfedcba98))
	require.NoError(t, s.Write64(p+512, 0xfedcba9876543210))
	require.NoError(t, s.WaitAtLeast64(p+512, 0xfedcba9876543210))
	require.NoError(t, s.CopyDtoH(host.Bytes, p))
	require.NoError(t, end.Record(s))
	require.NoError(t, end.Synchronize())
	done, err := end.Done()
	require.NoError(t, err)
	require.True(t, done)
	done, err = s.Done()
	require.NoError(t, err)
	require.True(t, done)
	took, err := end.Since(start)
	require.NoError(t, err)
	require.Positive(t, took)
	want := pattern(n, 9)
	copy(want, want[100:150])
	copy(want[200:], bytes.Repeat([]byte{1}, 9))
	copy(want[400:], []byte{5, 0, 0, 0, 5, 0, 0, 0})
	copy(want[500:], []byte{0x98, 0xba, 0xdc, 0xfe})
	copy(want[512:], []byte{0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe})
	require.True(t, bytes.Equal(want, host.Bytes))

	info, err := c.Driver().Pointer(p + 5)
	require.NoError(t, err)
	t.Logf("%+v", info)
	require.Equal(t, MemoryDevice, info.Kind)
	require.Equal(t, 0, info.Device)
	require.Equal(t, p, info.Base)
	require.GreaterOrEqual(t, info.Bytes, n)
	require.True(t, info.IPC)
	require.NotZero(t, info.BufferID)
	base, size, err := c.AddressRange(p + 5)
	require.NoError(t, err)
	require.Equal(t, p, base)
	require.GreaterOrEqual(t, size, n)
	info, err = c.Driver().Pointer(host.Device)
	require.NoError(t, err)
	require.Equal(t, MemoryHost, info.Kind)
	info, err = c.Driver().Pointer(Ptr(unsafe.Pointer(&src[0])))
	require.NoError(t, err)
	t.Logf("Go memory: %+v", info)
	require.NotEqual(t, MemoryDevice, info.Kind)

	mapping, err := unix.Mmap(-1, 0, 1<<16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	require.NoError(t, err)
	registered, err := c.RegisterHost(mapping)
	require.NoError(t, err)
	require.NoError(t, s.CopyDtoH(registered.Bytes, p))
	require.NoError(t, s.Synchronize())
	require.True(t, bytes.Equal(want[:1<<16], mapping))
	require.NoError(t, registered.Unregister())
	require.NoError(t, unix.Munmap(mapping))

	_, err = c.Alloc(1 << 50)
	require.ErrorIs(t, err, OutOfMemory)
	require.NoError(t, host.Free())
	require.NoError(t, start.Destroy())
	require.NoError(t, end.Destroy())
	require.NoError(t, s.Destroy())
	require.NoError(t, c.Free(p))
}

func TestGPUKernels(t *testing.T) {
	for _, c := range gpu(t) {
		_, err := c.LoadModule([]byte(strings.Replace(ptx, "ret;", "what;", 1)))
		require.ErrorIs(t, err, InvalidPTX)
		require.ErrorContains(t, err, "what")
		m, err := c.LoadModule([]byte(ptx))
		require.NoError(t, err)
		_, err = m.Function("missing")
		require.ErrorIs(t, err, NotFound)
		fill, err := m.Function("fill")
		require.NoError(t, err)
		registers, err := fill.Attribute(FunctionRegisters)
		require.NoError(t, err)
		require.Positive(t, registers)
		require.NoError(t, fill.SetMaxDynamicShared(100<<10))
		blocks, err := fill.BlocksPerSM(512, 0)
		require.NoError(t, err)
		require.Positive(t, blocks)

		const n = 1000
		p, err := c.Alloc(4 * n)
		require.NoError(t, err)
		s, err := c.NewStream(0)
		require.NoError(t, err)
		args := &struct {
			at   Ptr
			v, n uint32
		}{p, 0, n}
		l := fill.NewLaunch(unsafe.Pointer(&args.at), unsafe.Pointer(&args.v), unsafe.Pointer(&args.n))
		l.SetGrid(8, 1, 1)
		l.SetBlock(128, 1, 1)
		host, err := c.AllocHost(4 * n)
		require.NoError(t, err)
		got := unsafe.Slice((*uint32)(unsafe.Pointer(&host.Bytes[0])), n)
		check := func(name string, v uint32) {
			require.NoError(t, s.CopyDtoH(host.Bytes, p), name)
			require.NoError(t, s.Synchronize(), name)
			for i, x := range got {
				require.Equal(t, v+uint32(i), x, name)
			}
		}
		for i, set := range []func(){
			func() {},
			func() { l.SetDomain(DomainRemote) },
			func() { l.SetProgrammatic(true) },
			func() { l.SetCluster(2, 1, 1) },
			func() { l.SetShared(90 << 10) },
			func() { l.SetPriority(-1) },
			func() { l.SetCluster(0, 0, 0); l.SetProgrammatic(false); l.SetCooperative(true) },
		} {
			set()
			args.v = uint32(1000 * i)
			require.NoError(t, l.Enqueue(s), "%d", i)
			check(fmt.Sprint(i), args.v)
		}
		l.SetGrid(1<<20, 1, 1)
		require.ErrorIs(t, l.Enqueue(s), CooperativeLaunchTooLarge)
		l.SetCooperative(false)
		l.SetGrid(8, 1, 1)

		// In a graph, with the values of the time of the capture.
		require.NoError(t, s.BeginCapture())
		capturing, err := s.Capturing()
		require.NoError(t, err)
		require.True(t, capturing)
		args.v = 77
		require.NoError(t, l.Enqueue(s))
		args.v = 0
		g, err := s.EndCapture()
		require.NoError(t, err)
		x, err := g.Instantiate()
		require.NoError(t, err)
		require.NoError(t, g.Destroy())
		require.NoError(t, x.Upload(s))
		for range 3 {
			require.NoError(t, s.Fill8(p, 0, 4*n))
			require.NoError(t, x.Launch(s))
			check("graph", 77)
		}
		require.NoError(t, x.Destroy())

		owner, err := s.Owner()
		require.NoError(t, err)
		require.Equal(t, c.Handle(), owner)
		owner, err = c.Stream(0).Owner()
		require.NoError(t, err)
		require.Equal(t, c.Handle(), owner)
		require.NoError(t, host.Free())
		require.NoError(t, s.Destroy())
		require.NoError(t, c.Free(p))
		require.NoError(t, m.Unload())
	}
}

// TestGPUMapped maps memory of every device twice for every device.
func TestGPUMapped(t *testing.T) {
	all := gpu(t)
	d := all[0].Driver()
	var devices []*Device
	for _, c := range all {
		devices = append(devices, c.Device())
	}
	for _, c := range all {
		dev := c.Device()
		n, err := dev.Granularity(HandlePOSIX)
		require.NoError(t, err)
		m, err := dev.NewMemory(n, HandlePOSIX)
		require.NoError(t, err)
		fd, err := m.ExportFD()
		require.NoError(t, err)
		same, err := d.ImportFD(fd)
		require.NoError(t, err)
		require.NoError(t, unix.Close(fd))
		var at [2]Ptr
		for i, mem := range []Memory{m, same} {
			at[i], err = d.Reserve(n, n)
			require.NoError(t, err)
			require.NoError(t, d.Map(at[i], n, mem))
			require.NoError(t, d.SetAccess(at[i], n, devices...))
			require.NoError(t, mem.Release())
		}
		src, got := pattern(n, 5), make([]byte, n)
		for _, user := range all {
			require.NoError(t, user.Fill8(at[0], 0, n))
			require.NoError(t, user.CopyHtoD(at[0], src))
			require.NoError(t, user.CopyDtoH(got, at[1]))
			require.True(t, bytes.Equal(src, got))
		}
		info, err := d.Pointer(at[1] + 5)
		require.NoError(t, err)
		t.Logf("mapped: %+v", info)
		require.Equal(t, dev.Ordinal(), info.Device)
		require.Equal(t, at[1], info.Base)
		require.False(t, info.IPC)
		base, bytes, err := c.AddressRange(at[1] + 5)
		require.NoError(t, err)
		require.Equal(t, at[1], base)
		require.Equal(t, n, bytes)
		again, err := d.MemoryAt(at[0])
		require.NoError(t, err)
		share, device, err := again.Shares()
		require.NoError(t, err)
		require.Equal(t, HandlePOSIX, share)
		require.Equal(t, dev.Ordinal(), device)
		require.NoError(t, again.Release())
		for _, p := range at {
			require.NoError(t, d.Unmap(p, n))
			require.NoError(t, d.Unreserve(p, n))
		}
		fabric, err := dev.NewMemory(n, HandleFabric)
		t.Logf("fabric: %v", err)
		if err == nil {
			_, err = fabric.ExportFabric()
			t.Logf("fabric handle: %v", err)
			require.NoError(t, fabric.Release())
		}
	}
}

func TestGPUPeers(t *testing.T) {
	all := gpu(t)
	for i, c := range all {
		for j, peer := range all {
			if i == j {
				continue
			}
			if can, err := c.Device().CanAccess(peer.Device()); err != nil || !can {
				t.Logf("%d does not reach %d: %v", i, j, err)
				continue
			}
			require.NoError(t, c.EnablePeer(peer))
			require.NoError(t, c.EnablePeer(peer))
			p, err := peer.Alloc(4096)
			require.NoError(t, err)
			src, got := pattern(4096, byte(i+j)), make([]byte, 4096)
			require.NoError(t, c.CopyHtoD(p, src))
			require.NoError(t, peer.CopyDtoH(got, p))
			require.Equal(t, src, got)
			require.NoError(t, peer.Free(p))
		}
	}
}

// TestGPUProcesses shares memory with another process, in both ways.
func TestGPUProcesses(t *testing.T) {
	c := gpu(t)[0]
	d := c.Driver()
	n, err := c.Device().Granularity(HandlePOSIX)
	require.NoError(t, err)
	m, err := c.Device().NewMemory(n, HandlePOSIX)
	require.NoError(t, err)
	mapped, err := d.Reserve(n, 0)
	require.NoError(t, err)
	require.NoError(t, d.Map(mapped, n, m))
	require.NoError(t, d.SetAccess(mapped, n, c.Device()))
	fd, err := m.ExportFD()
	require.NoError(t, err)
	allocated, err := c.Alloc(4096)
	require.NoError(t, err)
	h, err := c.IPCHandle(allocated)
	require.NoError(t, err)
	require.NoError(t, c.CopyHtoD(mapped, pattern(4096, 1)))
	require.NoError(t, c.CopyHtoD(allocated, pattern(4096, 2)))

	child := exec.Command(os.Args[0], "-test.run", "^TestGPUChild$", "-test.v")
	child.Env = append(os.Environ(), "WEFT_TEST_IPC="+hex.EncodeToString(h[:]))
	child.ExtraFiles = []*os.File{os.NewFile(uintptr(fd), "memory")}
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "PASS: TestGPUChild")
	require.NoError(t, child.ExtraFiles[0].Close())

	got := make([]byte, 4096)
	require.NoError(t, c.CopyDtoH(got, mapped))
	require.Equal(t, pattern(4096, 11), got)
	require.NoError(t, c.CopyDtoH(got, allocated))
	require.Equal(t, pattern(4096, 12), got)

	// A fault on the device ends that process's use of it, not ours.
	child = exec.Command(os.Args[0], "-test.run", "^TestGPUChild$", "-test.v")
	child.Env = append(os.Environ(), "WEFT_TEST_IPC=crash")
	out, err = child.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, c.Synchronize())

	require.NoError(t, c.Free(allocated))
	require.NoError(t, d.Unmap(mapped, n))
	require.NoError(t, d.Unreserve(mapped, n))
	require.NoError(t, m.Release())
}

// TestGPUChild is the other process of TestGPUProcesses.
func TestGPUChild(t *testing.T) {
	arg := os.Getenv("WEFT_TEST_IPC")
	if arg == "" {
		t.Skip("only in a process that TestGPUProcesses starts")
	}
	c := gpu(t)[0]
	if arg == "crash" {
		m, err := c.LoadModule([]byte(ptx))
		require.NoError(t, err)
		crash, err := m.Function("crash")
		require.NoError(t, err)
		require.NoError(t, crash.NewLaunch().Enqueue(c.Stream(0)))
		err = c.Synchronize()
		require.ErrorIs(t, err, IllegalAddress)
		var code Code
		require.ErrorAs(t, err, &code)
		require.True(t, code.Fatal())
		_, err = c.Alloc(100)
		require.ErrorIs(t, err, IllegalAddress)
		return
	}
	raw, err := hex.DecodeString(arg)
	require.NoError(t, err)
	opened, err := c.OpenIPC(IPCHandle(raw))
	require.NoError(t, err)
	d := c.Driver()
	m, err := d.ImportFD(3)
	require.NoError(t, err)
	n, err := c.Device().Granularity(HandlePOSIX)
	require.NoError(t, err)
	mapped, err := d.Reserve(n, 0)
	require.NoError(t, err)
	require.NoError(t, d.Map(mapped, n, m))
	require.NoError(t, d.SetAccess(mapped, n, c.Device()))
	got := make([]byte, 4096)
	require.NoError(t, c.CopyDtoH(got, mapped))
	require.Equal(t, pattern(4096, 1), got)
	require.NoError(t, c.CopyDtoH(got, opened))
	require.Equal(t, pattern(4096, 2), got)
	require.NoError(t, c.CopyHtoD(mapped, pattern(4096, 11)))
	require.NoError(t, c.CopyHtoD(opened, pattern(4096, 12)))
	require.NoError(t, c.Synchronize())
	require.NoError(t, c.CloseIPC(opened))
}

func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*13) + byte(i>>8)*3 + seed
	}
	return b
}

// The cost of calls. BenchmarkNothing is of a C function that does nothing, by
// the double's library; the others are of the driver, or the double where there is none.

func benchmarked(b *testing.B) *Context {
	d, err := Load()
	if err != nil {
		require.NoError(b, libraryErr)
		require.NoError(b, os.Setenv("WEFT_DOUBLE_QUIET", "1"))
		d, err = open(library)
	}
	require.NoError(b, err)
	dev, err := d.Device(0)
	require.NoError(b, err)
	c, err := dev.Primary()
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, c.Release()) })
	return c
}

func BenchmarkNothing(b *testing.B) {
	require.NoError(b, libraryErr)
	nothing := cudatest.Open(b, library).Nothing()
	args := new([4]uintptr)
	b.ReportAllocs()
	for b.Loop() {
		dl.Call(nothing, args[:]...)
	}
}

// enqueueMany calls f again and again and waits for the device in between, untimed.
func enqueueMany(b *testing.B, s Stream, f func() error) {
	require.NoError(b, f())
	require.NoError(b, s.Synchronize())
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if err := f(); err != nil {
			b.Fatal(err)
		}
		if i%256 == 255 {
			b.StopTimer()
			require.NoError(b, s.Synchronize())
			b.StartTimer()
		}
	}
}

func BenchmarkLaunch(b *testing.B) {
	c := benchmarked(b)
	m, err := c.LoadModule([]byte(ptx))
	require.NoError(b, err)
	nothing, err := m.Function("nothing")
	require.NoError(b, err)
	fill, err := m.Function("fill")
	require.NoError(b, err)
	s, err := c.NewStream(0)
	require.NoError(b, err)
	p, err := c.Alloc(4)
	require.NoError(b, err)
	args := &struct {
		at   Ptr
		v, n uint32
	}{p, 0, 1}
	l := nothing.NewLaunch()
	withParams := fill.NewLaunch(unsafe.Pointer(&args.at), unsafe.Pointer(&args.v), unsafe.Pointer(&args.n))
	withParams.SetDomain(DomainRemote)
	b.Run("plain", func(b *testing.B) { enqueueMany(b, s, func() error { return l.Enqueue(s) }) })
	b.Run("params", func(b *testing.B) { enqueueMany(b, s, func() error { return withParams.Enqueue(s) }) })
	b.Run("bare", func(b *testing.B) {
		// The driver's call alone, the context being current.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		require.NoError(b, c.driver.call(fnCtxPushCurrent, c.handle))
		l.config.stream = s.handle
		args := &[4]uintptr{uintptr(unsafe.Pointer(&l.config)), l.function.handle}
		enqueueMany(b, s, func() error {
			if code := c.driver.code(fnLaunchKernelEx, args[:]...); code != Success {
				return code
			}
			return nil
		})
		require.NoError(b, c.driver.call(fnCtxPopCurrent, 0))
	})
	b.Run("without", func(b *testing.B) {
		// The driver's call alone, no context being current.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		args := &[4]uintptr{uintptr(unsafe.Pointer(&l.config)), l.function.handle}
		if code := c.driver.code(fnLaunchKernelEx, args[:]...); code != Success {
			b.Skip("the driver refuses it: ", code)
		}
		enqueueMany(b, s, func() error {
			if code := c.driver.code(fnLaunchKernelEx, args[:]...); code != Success {
				return code
			}
			return nil
		})
	})
	runtime.KeepAlive(l)
	require.NoError(b, c.Free(p))
	require.NoError(b, s.Destroy())
	require.NoError(b, m.Unload())
}

func BenchmarkCalls(b *testing.B) {
	c := benchmarked(b)
	s, err := c.NewStream(0)
	require.NoError(b, err)
	e, err := c.NewEvent(false)
	require.NoError(b, err)
	p, err := c.Alloc(256)
	require.NoError(b, err)
	b.Run("record", func(b *testing.B) { enqueueMany(b, s, func() error { return e.Record(s) }) })
	b.Run("waitEvent", func(b *testing.B) { enqueueMany(b, s, func() error { return s.WaitEvent(e) }) })
	b.Run("capturing", func(b *testing.B) { enqueueMany(b, s, func() error { _, err := s.Capturing(); return err }) })
	b.Run("pointer", func(b *testing.B) { enqueueMany(b, s, func() error { _, err := c.Driver().Pointer(p); return err }) })
	b.Run("pushPop", func(b *testing.B) {
		// Two calls of the driver, the least that using a context costs.
		args, none := &[1]uintptr{c.handle}, &[1]uintptr{0}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for b.Loop() {
			c.driver.code(fnCtxPushCurrent, args[:]...)
			c.driver.code(fnCtxPopCurrent, none[:]...)
		}
	})
	require.NoError(b, c.Free(p))
	require.NoError(b, s.Destroy())
	require.NoError(b, e.Destroy())
}
