//go:build linux && !android && (amd64 || arm64) && !nocuda

package comm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/weft-go/weft/comm/bootstrap"
	"github.com/weft-go/weft/internal/cuda"
	"github.com/weft-go/weft/internal/cuda/cudatest"
	"github.com/weft-go/weft/internal/ranktest"
	layout "github.com/weft-go/weft/kernels/cuda"
	"github.com/weft-go/weft/transport/pointer/device"
)

func init() {
	programs["device"] = func() error {
		c, err := Init(context.Background())
		if err != nil {
			return err
		}
		return errors.Join(useDevice(c), c.Close())
	}
	programs["deviceDeath"] = deviceDeath
}

// needDevice has the tests use the double, or what the machine has if they are told to.
func needDevice(t *testing.T) *cudatest.Double {
	t.Helper()
	double := cudatest.Use(t)
	if n, err := device.Count(); double == nil && (err != nil || n == 0) {
		t.Skip("no CUDA device: ", err)
	}
	return double
}

func onLocalRanks(t *testing.T, n int, f func(c *Communicator) error, opts ...Option) {
	t.Helper()
	all, err := Local(n, opts...)
	require.NoError(t, err)
	var g errgroup.Group
	for _, c := range all {
		g.Go(func() error {
			err := f(c)
			if err != nil {
				c.Abort(err)
			}
			return errors.Join(err, c.Close())
		})
	}
	require.NoError(t, g.Wait())
}

func devicePattern(n, from, to int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*13 + 50*from + 7*to)
	}
	return b
}

// useDevice has each rank write a part of every rank's memory, of all kinds, and read
// what the others have written.
func useDevice(c *Communicator) error {
	ctx := context.Background()
	barrier := func() error { _, err := c.exchange(ctx, bootstrap.Message{}); return err }
	part := 100_000
	if c.Size() > 5 {
		part = 3_000
	}
	n := part * c.Size()
	made, err := AllocDevice(ctx, c, n)
	if err != nil {
		return err
	}
	d, err := c.OpenDevice(ctx)
	if err != nil {
		return err
	}
	if len(d.Segments()) != c.Size() || d.Lanes() < 1 {
		return fmt.Errorf("%d segments, %d lanes", len(d.Segments()), d.Lanes())
	}
	foreign, err := d.Context().Alloc(n + 1000)
	if err != nil {
		return err
	}
	registered, err := Register(ctx, c, uintptr(foreign)+300, n)
	if err != nil {
		return err
	}
	// Another part of the same allocation.
	again, err := Register(ctx, c, uintptr(foreign)+301, 5)
	if err != nil {
		return err
	}
	if registered.Ptr() != uintptr(foreign)+300 || registered.Peer(c.Rank()) != registered.Ptr() || again.Len() != 5 {
		return errors.New("registered memory is elsewhere")
	}
	for k, b := range []*DeviceBuffer{made, registered} {
		if b.Len() != n || b.Peer(-1) != 0 || b.Peer(c.Size()) != 0 {
			return errors.New("wrong form")
		}
		for p := range c.Size() {
			at := cuda.Ptr(b.Peer(p) + uintptr(part*c.Rank()))
			if err := d.Context().CopyHtoD(at, devicePattern(part, c.Rank(), p+k)); err != nil {
				return fmt.Errorf("to %d: %w", p, err)
			}
		}
		if err := d.Context().Synchronize(); err != nil {
			return err
		}
		if err := barrier(); err != nil {
			return err
		}
		got := make([]byte, n)
		if err := d.Context().CopyDtoH(got, cuda.Ptr(b.Ptr())); err != nil {
			return err
		}
		for p := range c.Size() {
			if !bytes.Equal(devicePattern(part, p, c.Rank()+k), got[part*p:part*p+part]) {
				return fmt.Errorf("buffer %d: what rank %d wrote", k, p)
			}
		}
		number, offset := d.Find(b.Ptr()+17, n-17)
		if number != k+1 || offset != 17 {
			return fmt.Errorf("found buffer %d, %d", number, offset)
		}
		if number, _ := d.Find(b.Ptr()+17, n-16); number != 0 {
			return errors.New("found what is too long")
		}
	}

	// The table has where this rank maps all buffers.
	table := make([]byte, 8*layout.MaxRanks*layout.MaxBuffers)
	if err := d.Context().CopyDtoH(table, d.Segments()[c.Rank()]+layout.BufferTable); err != nil {
		return err
	}
	for number, b := range map[int]*DeviceBuffer{1: made, 2: registered, 3: again} {
		for p := range c.Size() {
			if e := binary.LittleEndian.Uint64(table[8*(p*layout.MaxBuffers+number-1):]); uintptr(e) != b.Peer(p) {
				return fmt.Errorf("table: buffer %d of rank %d at %#x, not %#x", number, p, e, b.Peer(p))
			}
		}
	}

	// A number is free again, on all ranks.
	if err := registered.Free(); err != nil {
		return err
	}
	if err := registered.Free(); err != nil || registered.Ptr() != 0 || registered.Peer(0) != 0 {
		return fmt.Errorf("after Free: %w", err)
	}
	if number, _ := d.Find(uintptr(foreign)+310, 1); number != 0 {
		return errors.New("found what was freed")
	}
	next, err := AllocDevice(ctx, c, 0)
	if err != nil {
		return err
	}
	if number, _ := d.Find(next.Ptr(), 0); number != 2 || next.Len() != 0 {
		return fmt.Errorf("the next buffer has number %d", number)
	}
	if err := again.Free(); err != nil {
		return err
	}
	return d.Context().Free(foreign)
	// made and next are left for Close.
}

func TestDeviceLocal(t *testing.T) {
	double := needDevice(t)
	for _, n := range []int{1, 2, 3, 5} {
		t.Run(strconv.Itoa(n), func(t *testing.T) { onLocalRanks(t, n, useDevice) })
	}
	if double != nil { // whose memory is cheap, as are segments for so many
		t.Run("20", func(t *testing.T) { onLocalRanks(t, 20, useDevice) })
	}
	t.Run("one device", func(t *testing.T) { onLocalRanks(t, 3, useDevice, WithDevice(0)) })
}

// More ranks than kernels know are refused on all, and the communicator goes on.
func TestDeviceRanks(t *testing.T) {
	needDevice(t)
	onLocalRanks(t, layout.MaxRanks+1, func(c *Communicator) error {
		_, err := AllocDevice(context.Background(), c, 1000)
		if !errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), fmt.Sprintf("%d ranks, on devices at most %d are possible", c.Size(), layout.MaxRanks)) {
			return fmt.Errorf("%d ranks: %w", c.Size(), err)
		}
		return c.AsyncErr()
	})
}

func TestDeviceProcesses(t *testing.T) {
	needDevice(t)
	ranktest.Start(t, 3, "device").Succeed(t, 30*time.Second)
	ranktest.Start(t, 2, "device", "WEFT_DEVICE=0").Succeed(t, 30*time.Second)
}

// TestDeviceReleased shows that nothing is left when all ranks have closed.
func TestDeviceReleased(t *testing.T) {
	double := needDevice(t)
	if double == nil {
		t.Skip("for the double alone")
	}
	double.Calls()
	onLocalRanks(t, 3, useDevice)
	counts := map[string]int{}
	for _, call := range double.Calls() {
		name, _, _ := bytes.Cut([]byte(call), []byte(" "))
		counts[string(name)]++
	}
	require.NotZero(t, counts["cuMemCreate"])
	for took, gave := range map[string]string{
		"cuMemAddressReserve": "cuMemAddressFree", "cuMemMap": "cuMemUnmap", "cuMemAlloc": "cuMemFree",
		"cuDevicePrimaryCtxRetain": "cuDevicePrimaryCtxRelease", "cuMemCreate": "cuMemRelease",
	} {
		require.Equal(t, counts[took], counts[gave], "%s, %s", took, gave)
	}
}

// deviceDeath is a job whose rank 1 dies while the others have its memory.
func deviceDeath() error {
	ctx := context.Background()
	c, err := Init(ctx)
	if err != nil {
		return err
	}
	b, err := AllocDevice(ctx, c, 1000)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if c.Rank() == 1 {
		select {}
	}
	<-c.stop.Done()
	if !errors.Is(c.AsyncErr(), ErrPeerDead) {
		return fmt.Errorf("ended by %w", c.AsyncErr())
	}
	d, _ := c.OpenDevice(ctx)
	// The dead rank's memory is still there for those who map it.
	if err := d.Context().CopyHtoD(cuda.Ptr(b.Peer(1)), make([]byte, 1000)); err != nil {
		return err
	}
	if _, err := AllocDevice(ctx, c, 1000); !errors.Is(err, ErrPeerDead) {
		return fmt.Errorf("allocated: %w", err)
	}
	return errors.Join(b.Free(), c.Close())
}

func TestDeviceRankDies(t *testing.T) {
	needDevice(t)
	j := ranktest.Start(t, 3, "deviceDeath")
	// Of all: a rank can still be waiting for the others' words when rank 1 has them.
	for _, r := range j.Ranks {
		require.NoError(t, r.WaitFor("ready", 20*time.Second))
	}
	require.NoError(t, j.Ranks[1].Signal(syscall.SIGKILL))
	for _, r := range []int{0, 2} {
		require.NoError(t, j.Ranks[r].Wait(20*time.Second), j.Ranks[r].Output())
	}
}

// TestDeviceRefused has one rank fail at each step: all get an error, and go on.
func TestDeviceRefused(t *testing.T) {
	double := needDevice(t)
	ctx := context.Background()
	onLocalRanks(t, 3, func(c *Communicator) error {
		if _, err := AllocDevice(ctx, c, -1); !errors.Is(err, ErrArgument) {
			return fmt.Errorf("negative: %w", err)
		}
		if _, err := Register(ctx, c, 1000, 0); !errors.Is(err, ErrArgument) {
			return fmt.Errorf("no bytes: %w", err)
		}
		d, err := c.OpenDevice(ctx)
		if err != nil {
			return err
		}
		p, err := d.Context().Alloc(1000)
		if err != nil {
			return err
		}
		theirs := p
		if c.Rank() == 1 {
			theirs = 0x10
		}
		_, err = Register(ctx, c, uintptr(theirs), 1000)
		var op *OpError
		if !errors.As(err, &op) || op.Call.Collective != OpRegister || errors.Is(err, device.ErrShare) != (c.Rank() == 1) {
			return fmt.Errorf("registered: %w", err)
		}
		if _, err = AllocDevice(ctx, c, 1<<45); !errors.As(err, &op) {
			return fmt.Errorf("allocated: %w", err)
		}
		b, err := Register(ctx, c, uintptr(p), 1000)
		if err != nil {
			return err
		}
		if number, _ := d.Find(uintptr(p), 1000); number != 1 {
			return fmt.Errorf("numbers were lost: %d", number)
		}
		return errors.Join(b.Free(), d.Context().Free(p))
	})
	if double == nil {
		return
	}
	for _, fails := range []string{"cuDevicePrimaryCtxRetain", "cuMemCreate", "cuMemsetD8_v2", "cuMemSetAccess", "cuMemcpyHtoD_v2"} {
		double.Fail(fails, int(cuda.OutOfMemory))
		onLocalRanks(t, 3, func(c *Communicator) error {
			_, err := AllocDevice(ctx, c, 1000)
			if err == nil {
				return fmt.Errorf("%s failed, and nobody said so", fails)
			}
			b, err := AllocDevice(ctx, c, 1000)
			if err != nil {
				return err
			}
			return b.Free()
		})
	}
}

// TestDeviceKinds has one rank fail at what programs look for: errors.Is finds it on all, with
// the same text on those that did not, and the communicator goes on.
func TestDeviceKinds(t *testing.T) {
	for _, kind := range []error{ErrNoDevice, ErrArgument, ErrUnreachable} {
		onLocalRanks(t, 3, func(c *Communicator) error {
			_, err := c.Extend(context.Background(), func() (any, error) {
				if c.Rank() == 1 {
					return nil, fmt.Errorf("%w: of this rank", kind)
				}
				return nil, nil
			})
			for _, k := range []error{ErrNoDevice, ErrArgument, ErrUnreachable} {
				if errors.Is(err, k) != (k == kind) {
					return fmt.Errorf("rank %d, %w: is %w: %t", c.Rank(), err, k, errors.Is(err, k))
				}
			}
			if want := fmt.Sprintf("rank 1: %v: of this rank", kind); !strings.HasSuffix(err.Error(), want) {
				return fmt.Errorf("rank %d says %w", c.Rank(), err)
			}
			return c.AsyncErr()
		})
	}
}

// TestDevicesApart has devices that don't reach each other.
func TestDevicesApart(t *testing.T) {
	if needDevice(t) == nil {
		t.Skip("for the double alone")
	}
	t.Setenv("WEFT_DOUBLE_APART", "1")
	open := func(c *Communicator) error { _, err := c.OpenDevice(context.Background()); return err }
	onLocalRanks(t, 2, func(c *Communicator) error {
		if err := open(c); !errors.Is(err, ErrUnreachable) {
			return fmt.Errorf("rank %d: %w", c.Rank(), err)
		}
		return nil
	})
	onLocalRanks(t, 2, open, WithDevice(1))
}

func TestDeviceMismatch(t *testing.T) {
	needDevice(t)
	all, err := Local(2)
	require.NoError(t, err)
	var g errgroup.Group
	for r, c := range all {
		g.Go(func() error {
			_, err := AllocDevice(context.Background(), c, 1000+r)
			c.Close()
			if !errors.Is(err, ErrMismatch) {
				return fmt.Errorf("rank %d: %w", r, err)
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
}

func TestDeviceChoice(t *testing.T) {
	needDevice(t)
	count, err := device.Count()
	require.NoError(t, err)
	onLocalRanks(t, 3, func(c *Communicator) error {
		d, err := c.OpenDevice(context.Background())
		if err != nil {
			return err
		}
		if got := d.Context().Device().Ordinal(); got != c.Rank()%count {
			return fmt.Errorf("rank %d has device %d", c.Rank(), got)
		}
		if d.Name(0) == "" || d.SegmentBytes() > 64<<20 {
			return fmt.Errorf("%s: %d bytes", d.Name(0), d.SegmentBytes())
		}
		// A communicator made of this one has its own segments, on the same devices.
		half, err := c.Split(context.Background(), c.Rank()%2, 0)
		if err != nil {
			return err
		}
		e, err := half.OpenDevice(context.Background())
		if err != nil {
			return err
		}
		if e == d || e.Context().Device().Ordinal() != c.Rank()%count || len(e.Segments()) != half.Size() {
			return errors.New("the half's device")
		}
		return half.Close()
	})
	onLocalRanks(t, 2, func(c *Communicator) error {
		_, err := c.OpenDevice(context.Background())
		if !errors.Is(err, ErrNoDevice) {
			return fmt.Errorf("device 99: %w", err)
		}
		return nil
	}, WithDevice(99))
	_, err = Local(1, WithDevice(-1))
	require.ErrorIs(t, err, ErrArgument)
	t.Setenv("WEFT_DEVICE", "first")
	_, err = Local(1)
	require.ErrorIs(t, err, ErrArgument)
}

// TestDeviceNumbers has all numbers of buffers taken.
func TestDeviceNumbers(t *testing.T) {
	needDevice(t)
	ctx := context.Background()
	onLocalRanks(t, 2, func(c *Communicator) error {
		d, err := c.OpenDevice(ctx)
		if err != nil {
			return err
		}
		p, err := d.Context().Alloc(layout.MaxBuffers)
		if err != nil {
			return err
		}
		var all []*DeviceBuffer
		for i := range layout.MaxBuffers {
			b, err := Register(ctx, c, uintptr(p)+uintptr(i), 1)
			if err != nil {
				return err
			}
			all = append(all, b)
		}
		if _, err := Register(ctx, c, uintptr(p), 1); !errors.Is(err, ErrArgument) {
			return fmt.Errorf("one more: %w", err)
		}
		if number, offset := d.Find(uintptr(p)+100, 1); number != 101 || offset != 0 {
			return fmt.Errorf("found %d, %d", number, offset)
		}
		if err := all[41].Free(); err != nil {
			return err
		}
		b, err := Register(ctx, c, uintptr(p), 1)
		if err != nil {
			return err
		}
		if b.number != 42 {
			return fmt.Errorf("number %d", b.number)
		}
		return nil
	})
}

// TestDeviceFreeWaits has one rank free its buffer late: the other must not be told before
// that its memory is free.
func TestDeviceFreeWaits(t *testing.T) {
	needDevice(t)
	var done atomic.Bool
	onLocalRanks(t, 2, func(c *Communicator) error {
		b, err := AllocDevice(context.Background(), c, 100)
		if err != nil {
			return err
		}
		if c.Rank() == 1 {
			time.Sleep(20 * time.Millisecond)
			done.Store(true)
		}
		if err := b.Free(); err != nil {
			return err
		}
		if !done.Load() {
			return errors.New("Free did not wait for the other rank")
		}
		return nil
	})
}

// TestDeviceHooks holds in which order a communicator ends.
func TestDeviceHooks(t *testing.T) {
	needDevice(t)
	all, err := Local(1)
	require.NoError(t, err)
	c := all[0]
	d, err := c.OpenDevice(context.Background())
	require.NoError(t, err)
	var order []string
	d.OnStop(func() { order = append(order, "stop") })
	d.OnFree(func() error { order = append(order, "free"); return nil })
	d.OnClose(func() error { order = append(order, "first"); return os.ErrInvalid })
	d.OnClose(func() error {
		order = append(order, "second")
		require.NoError(t, c.AsyncErr(), "the communicator still works")
		return nil
	})
	require.ErrorIs(t, c.Close(), os.ErrInvalid)
	require.Equal(t, []string{"second", "first", "stop", "free"}, order)
	b, err := AllocDevice(context.Background(), c, 10)
	require.ErrorIs(t, err, ErrClosed)
	require.Nil(t, b)
	require.NoError(t, b.Free())
	require.Zero(t, b.Ptr())
	require.Zero(t, b.Len())
}

// Free does without the others when a call on the device has failed; it is Close that says so.
func TestDeviceFreeFailed(t *testing.T) {
	needDevice(t)
	all, err := Local(1)
	require.NoError(t, err)
	c := all[0]
	b, err := AllocDevice(context.Background(), c, 10)
	require.NoError(t, err)
	failed := uint64(1)
	c.SetLater(&failed, func() (uint64, error) { return 0, os.ErrInvalid })
	require.NoError(t, b.Free())
	var abort *AbortError
	err = c.Close()
	require.ErrorAs(t, err, &abort)
	require.ErrorIs(t, err, os.ErrInvalid)
}

// A buffer that nobody made has nothing.
func TestDeviceBufferZero(t *testing.T) {
	var b DeviceBuffer
	require.Zero(t, b.Ptr())
	require.Zero(t, b.Peer(0))
	require.Zero(t, b.Len())
	require.ErrorIs(t, b.Free(), ErrArgument)
}

// TestDeviceNone is in a process of its own, as a process has one driver.
func TestDeviceNone(t *testing.T) {
	var nobody *Communicator
	_, err := AllocDevice(context.Background(), nobody, 1)
	require.ErrorIs(t, err, ErrNil)
	ranktest.Start(t, 2, "noDevice", "WEFT_CUDA_DRIVER=/nonexistent/libcuda.so").Succeed(t, 20*time.Second)
}

func init() {
	programs["noDevice"] = func() error {
		ctx := context.Background()
		c, err := Init(ctx)
		if err != nil {
			return err
		}
		_, err = AllocDevice(ctx, c, 1000)
		if !errors.Is(err, ErrNoDevice) || !errors.Is(err, cuda.ErrNoDriver) {
			return fmt.Errorf("without a driver: %w", err)
		}
		var op *OpError
		if !errors.As(err, &op) || op.Call.Collective != OpAllocDevice || strings.Contains(err.Error(), "OpenDevice") {
			return fmt.Errorf("not the call that was made: %w", err)
		}
		// The communicator works all the same.
		b, err := Alloc[int32](ctx, c, 10)
		if err != nil {
			return err
		}
		return errors.Join(b.Free(), c.Close())
	}
}
