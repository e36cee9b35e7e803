//go:build linux && !android && (amd64 || arm64) && !nocuda

package cuda

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/weft-go/weft/internal/cuda/cudatest"
)

// opened returns the double as a driver, and a context of its device 0.
func opened(t *testing.T) (*cudatest.Double, *Driver, *Context) {
	t.Helper()
	require.NoError(t, libraryErr)
	d, err := open(library)
	require.NoError(t, err)
	dev, err := d.Device(0)
	require.NoError(t, err)
	c, err := dev.Primary()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Release()) })
	double := cudatest.Open(t, library)
	double.Calls()
	return double, d, c
}

func TestLoadDouble(t *testing.T) {
	require.NoError(t, libraryErr)
	d, err := open("libnowhere-to-be-found.so.1", library)
	require.NoError(t, err)
	require.Equal(t, library, d.Library())
	require.GreaterOrEqual(t, d.Version(), 13000)
	for f := range functionCount {
		require.True(t, d.has(f), "%s", functionNames[f])
	}
}

func TestNoDriver(t *testing.T) {
	_, err := open("libnowhere-to-be-found.so.1", "libnor-this.so")
	require.ErrorIs(t, err, ErrNoDriver)
	var missing *NoDriverError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, []string{"libnowhere-to-be-found.so.1", "libnor-this.so"}, missing.Tried)
	require.ErrorContains(t, err, "looked for libnowhere-to-be-found.so.1, libnor-this.so: ")

	// A library that is something else.
	other := filepath.Join(t.TempDir(), "libother.so")
	compile(t, other, "int something(void) { return 0; }")
	_, err = open(other)
	require.ErrorIs(t, err, ErrNoDriver)
	require.ErrorContains(t, err, "has no cuInit")

	// One that is no library at all.
	text := filepath.Join(t.TempDir(), "libtext.so")
	require.NoError(t, os.WriteFile(text, []byte("text"), 0o600))
	_, err = open(text)
	require.ErrorIs(t, err, ErrNoDriver)
}

func TestDriverThatRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		code int
		is   error
		says string
	}{
		"none":  {100, NoDevice, "cuda: cuInit: CUDA_ERROR_NO_DEVICE"},
		"stub":  {34, ErrNoDriver, "it is the stub that programs are linked with"},
		"newer": {4711, Code(4711), "cuda: cuInit: CUresult 4711"},
	} {
		t.Run(name, func(t *testing.T) {
			l := filepath.Join(t.TempDir(), "lib.so")
			compile(t, l, "int cuInit(unsigned flags) { return "+strconv.Itoa(tc.code)+"; }")
			_, err := open(l)
			require.ErrorIs(t, err, tc.is)
			require.ErrorContains(t, err, tc.says)
		})
	}
}

// TestOldDriver has a driver that lacks nearly everything: what it has works,
// and what it lacks is named.
func TestOldDriver(t *testing.T) {
	l := filepath.Join(t.TempDir(), "libold.so")
	compile(t, l, `
		int cuInit(unsigned flags) { return 0; }
		int cuDriverGetVersion(int *v) { *v = 11040; return 0; }
		int cuDeviceGet(int *d, int i) { *d = i; return 0; }
		int cuCtxPushCurrent_v2(void *c) { return c == 0; }
		int cuDevicePrimaryCtxRetain(void **c, int d) { *c = "context"; return 0; }`)
	d, err := open(l)
	require.NoError(t, err)
	require.Equal(t, 11040, d.Version())
	dev, err := d.Device(3)
	require.NoError(t, err)
	require.Equal(t, 3, dev.Ordinal())
	_, err = dev.UUID()
	require.ErrorIs(t, err, ErrNotInDriver)
	require.EqualError(t, err, "cuda: cuDeviceGetUuid: not in this CUDA driver (CUDA 11.4)")
	_, err = dev.Primary()
	require.EqualError(t, err, "cuda: cuCtxPopCurrent: not in this CUDA driver (CUDA 11.4)")

	c := &Context{driver: d, device: dev, handle: 1}
	require.EqualError(t, (&Function{context: c}).NewLaunch().Enqueue(Stream{}), "cuda: cuLaunchKernelEx: not in this CUDA driver (CUDA 11.4)")
	_, err = c.Stream(0).Done()
	require.ErrorIs(t, err, ErrNotInDriver)
}

func compile(t *testing.T, library, source string) {
	t.Helper()
	c := library + ".c"
	require.NoError(t, os.WriteFile(c, []byte(source), 0o600))
	require.NoError(t, cudatest.Compile("-fPIC", "-shared", "-o", library, c))
}

func TestDevice(t *testing.T) {
	double, d, _ := opened(t)
	n, err := d.Devices()
	require.NoError(t, err)
	require.Equal(t, 2, n)
	dev, err := d.Device(1)
	require.NoError(t, err)
	name, err := dev.Name()
	require.NoError(t, err)
	require.Equal(t, "Double 1", name)
	uuid, err := dev.UUID()
	require.NoError(t, err)
	require.Equal(t, "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f", uuid.String())
	bus, err := dev.PCIBusID()
	require.NoError(t, err)
	require.Equal(t, "0000:02:00.0", bus)
	total, err := dev.TotalBytes()
	require.NoError(t, err)
	require.Equal(t, 80<<30, total)
	major, minor, err := dev.ComputeCapability()
	require.NoError(t, err)
	require.Equal(t, []int{9, 0}, []int{major, minor})
	_, err = dev.Attribute(EndpointUnicast)
	require.ErrorIs(t, err, InvalidValue)

	first, err := d.Device(0)
	require.NoError(t, err)
	can, err := dev.CanAccess(first)
	require.NoError(t, err)
	require.True(t, can)
	atomics, err := dev.Link(LinkNativeAtomics, first)
	require.NoError(t, err)
	require.Equal(t, 1, atomics)
	require.Equal(t, []string{
		"cuDeviceGetCount",
		"cuDeviceGet ordinal=1",
		"cuDeviceGetName room=255 device=1",
		"cuDeviceGetUuid device=1",
		"cuDeviceGetPCIBusId room=31 device=1",
		"cuDeviceTotalMem device=1",
		"cuDeviceGetAttribute attribute=75 device=1",
		"cuDeviceGetAttribute attribute=76 device=1",
		"cuDeviceGetAttribute attribute=153 device=1",
		"cuDeviceGet ordinal=0",
		"cuDeviceCanAccessPeer device=1 peer=0",
		"cuDeviceGetP2PAttribute attribute=3 device=1 peer=0",
	}, double.Calls())

	_, err = d.Device(2)
	require.ErrorIs(t, err, InvalidDevice)
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, Error{Code: InvalidDevice, Op: "cuDeviceGet", Detail: "text of code 101"}, *e)
	require.EqualError(t, err, "cuda: cuDeviceGet: CUDA_ERROR_INVALID_DEVICE: text of code 101")
	_, err = d.Device(-1)
	require.ErrorIs(t, err, InvalidDevice)
	_, err = d.Device(1 << 40)
	require.ErrorIs(t, err, ErrInvalid)
}

// TestCurrentContext has goroutines of two devices move between threads, and a
// thread that has a context current of its own.
func TestCurrentContext(t *testing.T) {
	_, d, first := opened(t)
	dev, err := d.Device(1)
	require.NoError(t, err)
	second, err := dev.Primary()
	require.NoError(t, err)
	defer func() { require.NoError(t, second.Release()) }()

	var wg sync.WaitGroup
	errs := make(chan error, 16)
	for i := range 16 {
		c := []*Context{first, second}[i%2]
		wg.Go(func() {
			for range 50 {
				p, err := c.Alloc(64)
				if err == nil {
					runtime.Gosched()
					err = c.Fill8(p, byte(i), 64)
				}
				if err == nil {
					err = c.Free(p)
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	require.NoError(t, <-errs)

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	current := func() uintptr {
		h := new(uintptr)
		require.NoError(t, d.call(fnCtxGetCurrent, uintptr(unsafe.Pointer(h))))
		return *h
	}
	require.Zero(t, current())
	require.NoError(t, d.call(fnCtxPushCurrent, second.Handle()))
	require.NoError(t, first.Synchronize())
	_, err = first.Alloc(1 << 50)
	require.ErrorIs(t, err, OutOfMemory)
	require.Equal(t, second.Handle(), current(), "ours must not stay current, on errors neither")
	require.NoError(t, d.call(fnCtxPopCurrent, 0))
}

func TestContextGone(t *testing.T) {
	_, d, _ := opened(t)
	dev, err := d.Device(1)
	require.NoError(t, err)
	c, err := dev.Primary()
	require.NoError(t, err)
	require.NoError(t, c.Release())
	require.ErrorIs(t, c.Synchronize(), InvalidContext)
	require.ErrorIs(t, c.Release(), InvalidContext)
}

func TestStreamsAndEvents(t *testing.T) {
	double, _, c := opened(t)
	least, greatest, err := c.StreamPriorities()
	require.NoError(t, err)
	require.Equal(t, []int{0, -5}, []int{least, greatest})
	s, err := c.NewStream(-5)
	require.NoError(t, err)
	require.Equal(t, s, c.Stream(s.Handle()))
	owner, err := s.Owner()
	require.NoError(t, err)
	require.Equal(t, c.Handle(), owner)

	start, err := c.NewEvent(true)
	require.NoError(t, err)
	end, err := c.NewEvent(false)
	require.NoError(t, err)
	done, err := end.Done()
	require.NoError(t, err)
	require.False(t, done)
	require.NoError(t, start.Record(s))
	require.NoError(t, end.Record(s))
	require.NoError(t, s.WaitEvent(start))
	done, err = end.Done()
	require.NoError(t, err)
	require.True(t, done)
	took, err := end.Since(start)
	require.NoError(t, err)
	require.Equal(t, 1500*time.Microsecond, took)
	require.NoError(t, end.Synchronize())
	require.NoError(t, s.Synchronize())
	double.Fail("cuStreamQuery", int(NotReady))
	done, err = s.Done()
	require.NoError(t, err)
	require.False(t, done)
	double.Fail("cuStreamQuery", int(IllegalAddress))
	_, err = s.Done()
	require.ErrorIs(t, err, IllegalAddress)
	require.True(t, IllegalAddress.Fatal())
	require.NoError(t, start.Destroy())
	require.NoError(t, end.Destroy())
	require.NoError(t, s.Destroy())
	require.Equal(t, []string{
		"cuCtxGetStreamPriorityRange",
		"cuStreamCreateWithPriority flags=1 priority=-5",
		"cuStreamGetCtx",
		"cuEventCreate flags=0",
		"cuEventCreate flags=2",
		"cuEventQuery",
		"cuEventRecord",
		"cuEventRecord",
		"cuStreamWaitEvent event=1 flags=0",
		"cuEventQuery",
		"cuEventElapsedTime",
		"cuEventSynchronize",
		"cuStreamSynchronize",
		"cuStreamQuery",
		"cuStreamQuery",
		"cuEventDestroy",
		"cuEventDestroy",
		"cuStreamDestroy",
	}, double.Calls())
}

func TestStreamWords(t *testing.T) {
	double, _, c := opened(t)
	p, err := c.Alloc(16)
	require.NoError(t, err)
	defer c.Free(p)
	s := c.Stream(0)
	double.Calls()
	require.NoError(t, s.Write32(p, 0xfedcba98))
	require.NoError(t, s.Write64(p+8, 0xfedcba9876543210))
	require.NoError(t, s.WaitAtLeast32(p, 0xfedcba98))
	require.NoError(t, s.WaitAtLeast64(p+8, 0xfedcba9876543210))
	require.NoError(t, s.WaitEqual32(p, 7))
	require.Equal(t, []string{
		"cuStreamWriteValue32 value=0xfedcba98 flags=0",
		"cuStreamWriteValue64 value=0xfedcba9876543210 flags=0",
		"cuStreamWaitValue32 value=0xfedcba98 flags=0",
		"cuStreamWaitValue64 value=0xfedcba9876543210 flags=0",
		"cuStreamWaitValue32 value=0x7 flags=1",
	}, double.Calls())
	got := make([]byte, 16)
	require.NoError(t, c.CopyDtoH(got, p))
	require.Equal(t, []byte{0x98, 0xba, 0xdc, 0xfe, 0, 0, 0, 0, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe}, got)
	require.ErrorIs(t, s.Write64(p+12, 1), InvalidValue)
}

func TestMemory(t *testing.T) {
	double, d, c := opened(t)
	p, err := c.Alloc(1000)
	require.NoError(t, err)
	s, err := c.NewStream(0)
	require.NoError(t, err)
	src := make([]byte, 1000)
	for i := range src {
		src[i] = byte(i * 7)
	}
	got := make([]byte, 1000)
	double.Calls()
	require.NoError(t, c.CopyHtoD(p, src))
	require.NoError(t, c.CopyDtoD(p+500, p, 100))
	require.NoError(t, c.Fill8(p, 9, 3))
	require.NoError(t, c.Fill32(p+100, 0x01020304, 2))
	require.NoError(t, c.CopyDtoH(got, p))
	want := slices.Clone(src)
	copy(want[500:], src[:100])
	copy(want, []byte{9, 9, 9})
	copy(want[100:], []byte{4, 3, 2, 1, 4, 3, 2, 1})
	require.Equal(t, want, got)

	host, err := c.AllocHost(1000)
	require.NoError(t, err)
	require.Len(t, host.Bytes, 1000)
	copy(host.Bytes, src)
	require.NoError(t, s.CopyHtoD(p, host.Bytes))
	require.NoError(t, s.CopyDtoD(p+400, p, 200))
	require.NoError(t, s.Fill8(p, 1, 1))
	require.NoError(t, s.Fill32(p+8, 0xffffffff, 1))
	require.NoError(t, s.CopyDtoH(host.Bytes, p))
	copy(src[400:], src[:200])
	src[0] = 1
	copy(src[8:], []byte{255, 255, 255, 255})
	require.Equal(t, src, host.Bytes)
	info, err := d.Pointer(host.Device)
	require.NoError(t, err)
	require.Equal(t, MemoryHost, info.Kind)
	require.NoError(t, host.Free())

	free, total, err := c.Memory()
	require.NoError(t, err)
	require.Equal(t, []int{79 << 30, 80 << 30}, []int{free, total})

	base, bytes, err := c.AddressRange(p + 999)
	require.NoError(t, err)
	require.Equal(t, p, base)
	require.Equal(t, 1000, bytes)
	info, err = d.Pointer(p + 10)
	require.NoError(t, err)
	require.NotZero(t, info.BufferID)
	info.BufferID = 0
	require.Equal(t, PointerInfo{Kind: MemoryDevice, Device: 0, Base: p, Bytes: 1000, IPC: true}, info)
	require.NoError(t, c.Free(p))
	info, err = d.Pointer(p)
	require.NoError(t, err)
	require.Equal(t, MemoryUnknown, info.Kind)
	require.ErrorIs(t, c.Free(p), InvalidValue)

	mapping, err := unix.Mmap(-1, 0, 1<<16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	require.NoError(t, err)
	defer unix.Munmap(mapping)
	registered, err := c.RegisterHost(mapping)
	require.NoError(t, err)
	require.Equal(t, Ptr(unsafe.Pointer(&mapping[0])), registered.Device)
	_, err = c.RegisterHost(mapping)
	require.ErrorIs(t, err, HostMemoryAlreadyRegistered)
	require.NoError(t, registered.Unregister())

	require.Equal(t, []string{
		"cuMemcpyHtoD bytes=1000",
		"cuMemcpyDtoD bytes=100",
		"cuMemsetD8 value=0x9 bytes=3",
		"cuMemsetD32 value=0x1020304 words=2",
		"cuMemcpyDtoH bytes=1000",
		"cuMemHostAlloc bytes=1000 flags=3",
		"cuMemHostGetDevicePointer flags=0",
		"cuMemcpyHtoDAsync bytes=1000",
		"cuMemcpyDtoDAsync bytes=200",
		"cuMemsetD8Async value=0x1 bytes=1",
		"cuMemsetD32Async value=0xffffffff words=1",
		"cuMemcpyDtoHAsync bytes=1000",
		"cuPointerGetAttributes count=7",
		"cuMemFreeHost",
		"cuMemGetInfo",
		"cuMemGetAddressRange",
		"cuPointerGetAttributes count=7",
		"cuMemFree",
		"cuPointerGetAttributes count=7",
		"cuMemFree",
		"cuMemHostRegister bytes=65536 flags=3",
		"cuMemHostGetDevicePointer flags=0",
		"cuMemHostRegister bytes=65536 flags=3",
		"cuMemHostUnregister",
	}, double.Calls())
	require.NoError(t, s.Destroy())
}

// TestNothingToDo has calls with nothing in them, which the driver refuses or leaves undefined.
func TestNothingToDo(t *testing.T) {
	double, d, c := opened(t)
	s := c.Stream(0)
	for _, err := range []error{
		c.CopyHtoD(0, nil), c.CopyDtoH(nil, 0), c.CopyDtoD(0, 0, 0), c.Fill8(0, 0, 0), c.Fill32(0, 0, 0),
		s.CopyHtoD(0, nil), s.CopyDtoH(nil, 0), s.CopyDtoD(0, 0, 0), s.Fill8(0, 0, 0), s.Fill32(0, 0, 0),
		d.SetAccess(0, 0),
	} {
		require.NoError(t, err)
	}
	_, err := c.Alloc(0)
	require.ErrorIs(t, err, ErrInvalid)
	_, err = c.AllocHost(-1)
	require.ErrorIs(t, err, ErrInvalid)
	_, err = c.RegisterHost(nil)
	require.ErrorIs(t, err, ErrInvalid)
	_, err = c.LoadModule(nil)
	require.ErrorIs(t, err, ErrInvalid)
	_, err = c.Device().NewMemory(0, HandlePOSIX)
	require.ErrorIs(t, err, ErrInvalid)
	_, err = d.Reserve(0, 0)
	require.ErrorIs(t, err, ErrInvalid)
	_, err = d.ImportFD(-1)
	require.ErrorIs(t, err, ErrInvalid)
	require.Equal(t, []string{""}, double.Calls())
}

func TestPeers(t *testing.T) {
	_, d, first := opened(t)
	dev, err := d.Device(1)
	require.NoError(t, err)
	second, err := dev.Primary()
	require.NoError(t, err)
	defer second.Release()
	p, err := second.Alloc(64)
	require.NoError(t, err)
	defer second.Free(p)
	require.ErrorIs(t, first.Fill8(p, 1, 64), InvalidValue)
	require.NoError(t, first.EnablePeer(second))
	require.NoError(t, first.EnablePeer(second), "again is no error")
	require.NoError(t, first.Fill8(p, 1, 64))
	require.ErrorIs(t, first.EnablePeer(first), PeerAccessUnsupported)
}

func TestMappedMemory(t *testing.T) {
	double, d, c := opened(t)
	dev := c.Device()
	other, err := d.Device(1)
	require.NoError(t, err)
	second, err := other.Primary()
	require.NoError(t, err)
	defer second.Release()
	double.Calls()

	n, err := dev.Granularity(HandlePOSIX)
	require.NoError(t, err)
	require.Equal(t, 2<<20, n)
	m, err := dev.NewMemory(2*n, HandlePOSIX)
	require.NoError(t, err)
	p, err := d.Reserve(2*n, n)
	require.NoError(t, err)
	require.NoError(t, d.Map(p, 2*n, m))
	require.ErrorIs(t, c.Fill8(p, 3, 100), InvalidValue, "no access yet")
	require.NoError(t, d.SetAccess(p, 2*n, dev, other))
	require.NoError(t, c.Fill8(p, 3, 100))
	require.NoError(t, second.Fill8(p+50, 4, 100))

	again, err := d.MemoryAt(p + 5)
	require.NoError(t, err)
	share, device, err := again.Shares()
	require.NoError(t, err)
	require.Equal(t, HandlePOSIX, share)
	require.Zero(t, device)
	require.NoError(t, again.Release())

	// The same memory by a descriptor, at another address.
	fd, err := m.ExportFD()
	require.NoError(t, err)
	imported, err := d.ImportFD(fd)
	require.NoError(t, err)
	require.NoError(t, unix.Close(fd))
	q, err := d.Reserve(2*n, 0)
	require.NoError(t, err)
	require.NoError(t, d.Map(q, 2*n, imported))
	require.NoError(t, imported.Release(), "the mapping keeps it")
	require.NoError(t, d.SetAccess(q, 2*n, other))
	got := make([]byte, 3)
	require.NoError(t, second.CopyDtoH(got, q+49))
	require.Equal(t, []byte{3, 4, 4}, got)

	require.NoError(t, m.Release())
	for _, at := range []Ptr{p, q} {
		require.ErrorIs(t, d.Unreserve(at, 2*n), InvalidValue, "still mapped")
		require.NoError(t, d.Unmap(at, 2*n))
		require.NoError(t, d.Unreserve(at, 2*n))
	}
	calls := double.Calls()
	const prop = " type=1 handles=1 location=1:0 win32=(nil) compression=0 rdma=0 usage=0 "
	require.Subset(t, calls, []string{
		"cuMemGetAllocationGranularity" + prop + "option=1",
		"cuMemCreate size=4194304" + prop + "flags=0",
		"cuMemAddressReserve size=4194304 alignment=2097152 at=0 flags=0",
		"cuMemMap size=4194304 offset=0 flags=0",
		"cuMemSetAccess size=4194304 1:0=3 1:1=3",
		"cuMemExportToShareableHandle type=1 flags=0",
		"cuMemImportFromShareableHandle type=1",
		"cuMemSetAccess size=4194304 1:1=3",
	})
}

func TestFabricHandles(t *testing.T) {
	double, d, c := opened(t)
	_, err := c.Device().NewMemory(2<<20, HandlePOSIX|HandleFabric)
	require.ErrorIs(t, err, NotPermitted)
	m, err := c.Device().NewMemory(2<<20, HandlePOSIX)
	require.NoError(t, err)
	defer m.Release()
	_, err = m.ExportFabric()
	require.ErrorIs(t, err, InvalidValue)
	h := FabricHandle{1}
	h[63] = 2
	_, err = d.ImportFabric(h)
	require.ErrorIs(t, err, NotPermitted)
	require.Equal(t, "cuMemImportFromShareableHandle type=8 first=1 last=2", double.Calls()[3])
}

// TestIPCHandle shows that all 64 bytes of a handle arrive, by value. (A
// process can't open its own, so this one is said to be of another.)
func TestIPCHandle(t *testing.T) {
	double, _, c := opened(t)
	p, err := c.Alloc(100)
	require.NoError(t, err)
	defer c.Free(p)
	h, err := c.IPCHandle(p + 5)
	require.NoError(t, err)
	double.Calls()
	_, err = c.OpenIPC(h)
	require.ErrorIs(t, err, InvalidContext)
	require.Equal(t, []string{"cuIpcOpenMemHandle flags=1 end=this is the end of the handle"}, double.Calls())
	// Process 0 is nobody: there is no such folder in /proc.
	copy(h[:4], []byte{0, 0, 0, 0})
	_, err = c.OpenIPC(h)
	require.ErrorIs(t, err, InvalidValue)
	require.ErrorIs(t, c.CloseIPC(p), InvalidValue)
}

func TestModule(t *testing.T) {
	double, _, c := opened(t)
	_, err := c.LoadModule([]byte("bad code"))
	require.ErrorIs(t, err, InvalidPTX)
	require.ErrorContains(t, err, "line 1: what?")
	m, err := c.LoadModule([]byte("good code"))
	require.NoError(t, err)
	f, err := m.Function("reduce")
	require.NoError(t, err)
	require.Equal(t, c, f.Context())
	_, err = m.Function("missing one")
	require.ErrorIs(t, err, NotFound)
	require.ErrorContains(t, err, "missing one")
	p, bytes, err := m.Global("table")
	require.NoError(t, err)
	require.Equal(t, Ptr(0x1000), p)
	require.Equal(t, 24, bytes)
	_, _, err = m.Global("missing too")
	require.ErrorContains(t, err, "CUDA_ERROR_NOT_FOUND: text of code 500: missing too")
	v, err := f.Attribute(FunctionRegisters)
	require.NoError(t, err)
	require.Equal(t, 104, v)
	require.NoError(t, f.SetMaxDynamicShared(200<<10))
	blocks, err := f.BlocksPerSM(512, 1000)
	require.NoError(t, err)
	require.Equal(t, 4, blocks)
	require.NoError(t, m.Unload())
	require.Equal(t, []string{
		"cuModuleLoadDataEx image=bad code options=2:5=1:6=4096",
		"cuModuleLoadDataEx image=good code options=2:5=1:6=4096",
		"cuModuleGetFunction name=reduce",
		"cuModuleGetFunction name=missing one",
		"cuModuleGetGlobal name=table",
		"cuModuleGetGlobal name=missing too",
		"cuFuncGetAttribute name=reduce attribute=4",
		"cuFuncSetAttribute name=reduce attribute=8 value=204800",
		"cuOccupancyMaxActiveBlocksPerMultiprocessor name=reduce threads=512 shared=1000",
		"cuModuleUnload",
	}, double.Calls())
}

func TestLaunch(t *testing.T) {
	double, _, c := opened(t)
	m, err := c.LoadModule([]byte("code"))
	require.NoError(t, err)
	f, err := m.Function("kernel_8_4_3")
	require.NoError(t, err)
	s, err := c.NewStream(0)
	require.NoError(t, err)
	var (
		address = Ptr(0x1122334455667788)
		count   = int32(-2)
		bytes   = [3]byte{1, 2, 3}
	)
	l := f.NewLaunch(unsafe.Pointer(&address), unsafe.Pointer(&count), unsafe.Pointer(&bytes))
	enqueue := func(s Stream) string {
		t.Helper()
		double.Calls()
		require.NoError(t, l.Enqueue(s))
		calls := double.Calls()
		require.Len(t, calls, 1)
		return strings.TrimPrefix(calls[0], "cuLaunchKernelEx name=kernel_8_4_3 ")
	}
	const params = " param=8877665544332211 param=feffffff param=010203 extra=(nil)"
	require.Equal(t, "grid=1,1,1 block=1,1,1 shared=0 stream=0"+params, enqueue(c.Stream(0)))

	l.SetGrid(132, 2, 3)
	l.SetBlock(512, 4, 5)
	l.SetShared(70000)
	l.SetDomain(DomainRemote)
	l.SetProgrammatic(true)
	l.SetCluster(2, 3, 4)
	l.SetCooperative(true)
	l.SetPriority(-3)
	const shape = "grid=132,2,3 block=512,4,5 shared=70000 stream=1"
	require.Equal(t, shape+" domain=1 programmatic=1 cluster=2,3,4 cooperative=1 priority=-3"+params, enqueue(s))

	// Attributes are replaced and taken out, and parameters read anew.
	l.SetDomain(DomainDefault)
	l.SetProgrammatic(false)
	l.SetProgrammatic(false)
	l.SetCluster(0, 0, 0)
	count = 5
	require.Equal(t, shape+" domain=0 priority=-3 cooperative=1 param=8877665544332211 param=05000000 param=010203 extra=(nil)", enqueue(s))

	double.Fail("cuLaunchKernelEx", int(LaunchOutOfResources))
	err = l.Enqueue(s)
	require.EqualError(t, err, "cuda: cuLaunchKernelEx: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: text of code 701")

	other, err := c.Driver().Device(1)
	require.NoError(t, err)
	second, err := other.Primary()
	require.NoError(t, err)
	defer second.Release()
	foreign, err := second.NewStream(0)
	require.NoError(t, err)
	require.ErrorIs(t, l.Enqueue(foreign), InvalidHandle)
	require.NoError(t, foreign.Destroy())
	require.NoError(t, s.Destroy())
	require.NoError(t, m.Unload())
}

func TestGraph(t *testing.T) {
	double, _, c := opened(t)
	s, err := c.NewStream(0)
	require.NoError(t, err)
	capturing, err := s.Capturing()
	require.NoError(t, err)
	require.False(t, capturing)
	require.NoError(t, s.BeginCapture())
	capturing, err = s.Capturing()
	require.NoError(t, err)
	require.True(t, capturing)
	g, err := s.EndCapture()
	require.NoError(t, err)
	_, err = s.EndCapture()
	require.ErrorIs(t, err, Code(903))
	require.EqualError(t, errors.Unwrap(err), "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED")
	x, err := g.Instantiate()
	require.NoError(t, err)
	require.NoError(t, g.Destroy())
	require.NoError(t, x.Upload(s))
	require.NoError(t, x.Launch(s))
	require.NoError(t, x.Destroy())
	require.NoError(t, s.Destroy())
	require.Equal(t, []string{
		"cuStreamCreateWithPriority flags=1 priority=0",
		"cuStreamIsCapturing",
		"cuStreamBeginCapture mode=2",
		"cuStreamIsCapturing",
		"cuStreamEndCapture",
		"cuStreamEndCapture",
		"cuGraphInstantiateWithFlags flags=0",
		"cuGraphDestroy",
		"cuGraphUpload",
		"cuGraphLaunch",
		"cuGraphExecDestroy",
		"cuStreamDestroy",
	}, double.Calls())
}

// TestAllocations holds that enqueueing allocates nothing.
func TestAllocations(t *testing.T) {
	double, _, c := opened(t)
	m, err := c.LoadModule([]byte("code"))
	require.NoError(t, err)
	f, err := m.Function("kernel_8")
	require.NoError(t, err)
	s, err := c.NewStream(0)
	require.NoError(t, err)
	e, err := c.NewEvent(false)
	require.NoError(t, err)
	p, err := c.Alloc(64)
	require.NoError(t, err)
	l := f.NewLaunch(unsafe.Pointer(&p))
	for name, call := range map[string]func() error{
		"launch":    func() error { l.SetGrid(3, 1, 1); l.SetDomain(1); return l.Enqueue(s) },
		"record":    func() error { return e.Record(s) },
		"wait":      func() error { return s.WaitEvent(e) },
		"done":      func() error { _, err := e.Done(); return err },
		"capturing": func() error { _, err := s.Capturing(); return err },
		"copy":      func() error { return s.CopyDtoD(p, p+32, 16) },
		"word":      func() error { return s.Write64(p, 1) },
	} {
		n := testing.AllocsPerRun(100, func() {
			if err := call(); err != nil {
				t.Fatal(err)
			}
		})
		double.Calls()
		// The race detector has sync.Pool forget things.
		if !raceEnabled {
			require.Zero(t, n, name)
		}
	}
}

// TestStackMoves calls from deep in goroutines whose stacks grow meanwhile: what
// the driver is given must not be on a stack.
func TestStackMoves(t *testing.T) {
	_, d, _ := opened(t)
	dev, err := d.Device(1)
	require.NoError(t, err)
	var deep func(n int) int
	deep = func(n int) int {
		var room [512]byte
		if n > 0 {
			return deep(n-1) + int(room[n%512])
		}
		uuid, err := dev.UUID()
		if err != nil || uuid[15] != 31 {
			t.Errorf("uuid %v: %v", uuid, err)
		}
		return 0
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { deep(200) })
	}
	wg.Wait()
}
