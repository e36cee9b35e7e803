package collectives

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/cuda"
	"github.com/weft-go/weft/internal/ranktest"
	"github.com/weft-go/weft/kernels"
)

// What is wrong of itself is refused without a look at a device.
func TestDeviceArguments(t *testing.T) {
	cs := local(t, 2)
	c := cs[1]
	at := func(ptr uintptr, count int) DeviceSlice { return DeviceSliceOf[float32](ptr, count) }
	bits := DeviceSlice{Ptr: 64, Count: 4, Type: kernels.TypeComplex64}
	var none *comm.Communicator
	for name, test := range map[string]struct {
		call func() error
		want error
	}{
		"nil":        {func() error { return AllReduceDevice(none, at(64, 1), at(64, 1), kernels.Sum, 0) }, comm.ErrNil},
		"type":       {func() error { return AllReduceDevice(c, DeviceSlice{}, DeviceSlice{}, kernels.Sum, 0) }, ErrType},
		"types":      {func() error { return AllReduceDevice(c, DeviceSliceOf[int32](64, 1), at(128, 1), kernels.Sum, 0) }, ErrType},
		"count":      {func() error { return AllReduceDevice(c, at(64, 2), at(128, 1), kernels.Sum, 0) }, ErrCount},
		"negative":   {func() error { return AllReduceDevice(c, at(64, -1), at(128, -1), kernels.Sum, 0) }, ErrCount},
		"huge":       {func() error { return AllReduceDevice(c, at(64, 1<<60), at(64, 1<<60), kernels.Sum, 0) }, ErrCount},
		"address":    {func() error { return AllReduceDevice(c, at(0, 1), at(128, 1), kernels.Sum, 0) }, comm.ErrArgument},
		"align":      {func() error { return AllReduceDevice(c, at(64, 1), at(130, 1), kernels.Sum, 0) }, ErrAlign},
		"overlap":    {func() error { return AllReduceDevice(c, at(64, 4), at(68, 4), kernels.Sum, 0) }, ErrOverlap},
		"operator":   {func() error { return AllReduceDevice(c, at(64, 4), at(128, 4), kernels.BitAnd, 0) }, ErrOperator},
		"complex":    {func() error { return AllReduceDevice(c, bits, bits, kernels.Sum, 0) }, ErrOperator},
		"root":       {func() error { return BroadcastDevice(c, at(64, 4), 2, 0) }, ErrRoot},
		"reduceroot": {func() error { return ReduceDevice(c, at(64, 4), at(64, 4), kernels.Sum, -1, 0) }, ErrRoot},
		"blocks":     {func() error { return AllToAllDevice(c, at(64, 3), at(640, 3), 0) }, ErrCount},
		"gather":     {func() error { return AllGatherDevice(c, at(64, 7), at(640, 4), 0) }, ErrCount},
		"otherblock": {func() error { return AllGatherDevice(c, at(64, 8), at(64, 4), 0) }, ErrOverlap},
		"scatter":    {func() error { return ReduceScatterBlockDevice(c, at(64, 4), at(64, 8), kernels.Sum, 0) }, ErrOverlap},
		"vcounts":    {func() error { return AllToAllVDevice(c, at(64, 3), []int{1, 2}, at(640, 3), []int{3}, 0) }, ErrCount},
		"vself":      {func() error { return AllToAllVDevice(c, at(64, 3), []int{1, 2}, at(640, 3), []int{2, 1}, 0) }, ErrCount},
		"wraps":      {func() error { return AllReduceDevice(c, at(^uintptr(3), 4), at(64, 4), kernels.Sum, 0) }, comm.ErrArgument},
		"srcwraps":   {func() error { return SendDevice(c, at(^uintptr(15), 4), 0, 0) }, comm.ErrArgument},
		"sendnone":   {func() error { return SendDevice(c, at(64, 3), -1, 0) }, ErrRoot},
		"recvnone":   {func() error { return RecvDevice(c, at(64, 3), -1, 0) }, ErrRoot},
		"bothnone":   {func() error { return SendRecvDevice(c, at(64, 4), -1, at(128, 4), -1, 0) }, ErrRoot},
		"tonone":     {func() error { return SendRecvDevice(c, at(64, 4), 0, at(128, 4), -1, 0) }, ErrRoot},
		"fromnone":   {func() error { return SendRecvDevice(c, at(64, 4), -1, at(128, 4), 0, 0) }, ErrRoot},
		"self":       {func() error { return SendDevice(c, at(64, 3), 1, 0) }, ErrRoot},
		"from":       {func() error { return RecvDevice(c, at(64, 3), 5, 0) }, ErrRoot},
		"both":       {func() error { return SendRecvDevice(c, at(64, 4), 0, at(68, 4), 0, 0) }, ErrOverlap},
	} {
		err := test.call()
		require.ErrorIs(t, err, test.want, name)
		var op *comm.OpError
		require.ErrorAs(t, err, &op, name)
	}
	require.NoError(t, c.AsyncErr())
	require.ErrorContains(t, SendDevice(c, at(64, 3), 7, 0), "Send to 7 ")
	require.ErrorContains(t, SendDevice(c, at(66, 3), 7, 0), "Send to 7 ")
	require.ErrorContains(t, RecvDevice(c, at(64, 3), 7, 0), "Recv from 7 ")
	require.ErrorContains(t, SendRecvDevice(c, at(64, 4), 0, at(128, 4), 7, 0), "Send to 7 ")
}

// Slices whose ends are beyond the last address overlap as others do.
func TestDeviceSlicesApart(t *testing.T) {
	at := func(ptr uintptr, count int) DeviceSlice { return DeviceSliceOf[float32](ptr, count) }
	require.True(t, at(64, 4).apartFrom(at(80, 4)))
	require.True(t, at(80, 4).apartFrom(at(64, 4)))
	require.False(t, at(64, 4).apartFrom(at(76, 4)))
	require.False(t, at(76, 4).apartFrom(at(64, 4)))
	require.True(t, at(^uintptr(15), 4).apartFrom(at(64, 4)))
	require.False(t, at(^uintptr(3), 4).apartFrom(at(^uintptr(3), 2)))
	require.False(t, at(^uintptr(3), 4).apartFrom(at(0, 4)))
}

// onDevices runs f on all ranks of a communicator, with a stream for each.
func onDevices(t *testing.T, cs []*comm.Communicator, f func(c *comm.Communicator, d *comm.Device, s cuda.Stream) error) {
	t.Helper()
	needDevice(t)
	require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
		return withDevice(c, func(d *comm.Device, s cuda.Stream) error { return f(c, d, s) })
	})...))
}

func withDevice(c *comm.Communicator, f func(d *comm.Device, s cuda.Stream) error) error {
	d, err := c.OpenDevice(context.Background())
	if err != nil {
		return err
	}
	s, err := d.Context().NewStream(0)
	if err != nil {
		return err
	}
	return errors.Join(f(d, s), s.Synchronize(), s.Destroy())
}

func needDevice(t *testing.T) {
	driver, err := cuda.Load()
	if err != nil {
		t.Skipf("no CUDA device: %v", err)
	}
	if n, err := driver.Devices(); err != nil || n == 0 {
		t.Skipf("no CUDA device: %v", err)
	}
}

// Without a device there is an error that says so, on all ranks.
func TestNoDevice(t *testing.T) {
	if driver, err := cuda.Load(); err == nil {
		if n, err := driver.Devices(); err == nil && n > 0 {
			t.Skip("there is a CUDA device")
		}
	}
	cs := local(t, 2)
	for _, err := range each(cs, func(c *comm.Communicator) error { return BarrierDevice(c, 0) }) {
		require.ErrorIs(t, err, comm.ErrNoDevice)
		var op *comm.OpError
		require.ErrorAs(t, err, &op)
		require.Equal(t, comm.OpBarrier, op.Call.Collective, "the call that was made")
		require.NotContains(t, err.Error(), "OpenDevice")
	}
	for _, err := range each(cs, func(c *comm.Communicator) error { return Barrier(context.Background(), c) }) {
		require.NoError(t, err)
	}
}

// Calls on devices have the bits of calls on slices, on memory of whatever origin.
func TestDeviceCalls(t *testing.T) {
	needDevice(t)
	for _, ranks := range []int{1, 2, 3, 4} {
		t.Run(fmt.Sprint(ranks), func(t *testing.T) {
			cs := local(t, ranks)
			onDevices(t, cs, func(c *comm.Communicator, d *comm.Device, s cuda.Stream) error {
				return deviceCalls(c, d, s)
			})
		})
	}
}

// deviceCalls is what a rank does.
func deviceCalls(c *comm.Communicator, d *comm.Device, s cuda.Stream) error {
	ctx, ranks, me := context.Background(), c.Size(), c.Rank()
	const most = 150000 // elements of a block
	bytesEach := 4 * most * ranks
	plain, err := d.Context().Alloc(2 * bytesEach)
	if err != nil {
		return err
	}
	adopted, err := d.Context().Alloc(2 * bytesEach)
	if err != nil {
		return err
	}
	allocated, err := comm.AllocDevice(ctx, c, 2*bytesEach)
	if err != nil {
		return err
	}
	registered, err := comm.Register(ctx, c, uintptr(adopted), 2*bytesEach)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(7, uint64(me)))
	for _, base := range []uintptr{uintptr(plain), allocated.Ptr(), registered.Ptr()} {
		for _, count := range []int{0, 1, 1001, most} {
			src := make([]int32, ranks*count)
			for i := range src {
				src[i] = rng.Int32()
			}
			at, to := cuda.Ptr(base), cuda.Ptr(base)+cuda.Ptr(bytesEach)
			from := DeviceSliceOf[int32](uintptr(at), len(src))
			check := func(name string, n int, device func(dst DeviceSlice) error, host func(dst []int32) error) error {
				want, got := make([]int32, n), make([]int32, n)
				for i := range want {
					want[i] = 7
				}
				// The copies may end after the calls; a stream that waits for nothing would be first.
				if err := errors.Join(d.Context().CopyHtoD(at, kernels.Bytes(src)), d.Context().CopyHtoD(to, kernels.Bytes(want)), d.Context().Stream(0).Synchronize()); err != nil {
					return err
				}
				if err := device(DeviceSliceOf[int32](uintptr(to), n)); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				if err := errors.Join(host(want), s.Synchronize(), d.Context().CopyDtoH(kernels.Bytes(got), to), c.AsyncErr()); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				if !bytes.Equal(kernels.Bytes(want), kernels.Bytes(got)) {
					return fmt.Errorf("%s of %d: wrong result on rank %d", name, count, me)
				}
				return nil
			}
			root := count % ranks
			st := s.Handle()
			counts := make([]int, ranks)
			for p := range counts {
				counts[p] = count * (p + me) / (2 * ranks)
			}
			total := 0
			for _, n := range counts {
				total += n
			}
			err := errors.Join(
				check("AllReduce", count, func(dst DeviceSlice) error { return AllReduceDevice(c, dst, from.from(0, count), kernels.Max, st) },
					func(dst []int32) error { return AllReduce(ctx, c, dst, src[:count], kernels.Max) }),
				check("Reduce", count, func(dst DeviceSlice) error { return ReduceDevice(c, dst, from.from(0, count), kernels.Avg, root, st) },
					func(dst []int32) error { return Reduce(ctx, c, dst, src[:count], kernels.Avg, root) }),
				check("ReduceScatterBlock", count, func(dst DeviceSlice) error { return ReduceScatterBlockDevice(c, dst, from, kernels.Sum, st) },
					func(dst []int32) error { return ReduceScatterBlock(ctx, c, dst, src, kernels.Sum) }),
				check("Broadcast", count, func(dst DeviceSlice) error { return BroadcastDevice(c, dst, root, st) },
					func(dst []int32) error { return Broadcast(ctx, c, dst, root) }),
				check("AllGather", ranks*count, func(dst DeviceSlice) error { return AllGatherDevice(c, dst, from.from(0, count), st) },
					func(dst []int32) error { return AllGather(ctx, c, dst, src[:count]) }),
				check("AllToAll", ranks*count, func(dst DeviceSlice) error { return AllToAllDevice(c, dst, from, st) },
					func(dst []int32) error { return AllToAll(ctx, c, dst, src) }),
				check("AllToAllV", total, func(dst DeviceSlice) error {
					return AllToAllVDevice(c, dst, counts, from.from(0, total), counts, st)
				}, func(dst []int32) error { return AllToAllV(ctx, c, dst, counts, src[:total], counts) }),
				BarrierDevice(c, st),
			)
			if err == nil && ranks > 1 {
				next, before := (me+1)%ranks, (me+ranks-1)%ranks
				err = check("SendRecv", count, func(dst DeviceSlice) error {
					return SendRecvDevice(c, dst, before, from.from(0, count), next, st)
				}, func(dst []int32) error {
					_, err := SendRecv(ctx, c, dst, before, 1, src[:count], next, 1)
					return err
				})
			}
			if err != nil {
				return err
			}
		}
	}
	return errors.Join(allocated.Free(), registered.Free(), d.Context().Free(adopted), d.Context().Free(plain))
}

// A call allocates nothing.
func TestDeviceAllocs(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	needDevice(t)
	const ranks = 2
	cs := local(t, ranks)
	var mem [ranks]*comm.DeviceBuffer
	var streams [ranks]cuda.Stream
	onDevices(t, cs, func(c *comm.Communicator, d *comm.Device, s cuda.Stream) (err error) {
		if mem[c.Rank()], err = comm.AllocDevice(context.Background(), c, 8<<20); err != nil {
			return err
		}
		streams[c.Rank()], err = d.Context().NewStream(0)
		return errors.Join(err, BarrierDevice(c, s.Handle()))
	})
	for _, count := range []int{100, 1 << 20} {
		var failed error
		n := testing.AllocsPerRun(20, func() {
			for p, c := range cs {
				buf := DeviceSliceOf[float32](mem[p].Ptr(), count)
				failed = errors.Join(failed, AllReduceDevice(c, buf, buf, kernels.Sum, streams[p].Handle()), AllGatherDevice(c, DeviceSliceOf[float32](mem[p].Ptr(), 2*count), DeviceSliceOf[float32](mem[p].Ptr()+uintptr(4*p*count), count), streams[p].Handle()))
			}
		})
		require.NoError(t, failed)
		require.Zero(t, n)
	}
	for _, s := range streams {
		require.NoError(t, s.Synchronize())
		require.NoError(t, s.Destroy())
	}
}

// A rank that does not come is named on all that did, and the communicator ends.
func TestDeviceMissing(t *testing.T) {
	needDevice(t)
	cs := local(t, 3, comm.WithTimeout(time.Second))
	onDevices(t, cs, func(c *comm.Communicator, d *comm.Device, s cuda.Stream) error {
		mem, err := comm.AllocDevice(context.Background(), c, 4096)
		if err != nil {
			return err
		}
		buf := DeviceSliceOf[float32](mem.Ptr(), 1024)
		if err := AllReduceDevice(c, buf, buf, kernels.Sum, s.Handle()); err != nil || c.Rank() == 2 {
			return err
		}
		if err := AllReduceDevice(c, buf, buf, kernels.Sum, s.Handle()); err != nil {
			return err
		}
		if err := s.Synchronize(); err != nil {
			return err
		}
		failed := c.AsyncErr()
		var abort *comm.AbortError
		if !errors.As(failed, &abort) || abort.Reason != comm.ReasonTimeout || len(abort.Ranks) != 1 || abort.Ranks[0] != 2 {
			return fmt.Errorf("rank %d: not a timeout of rank 2: %v", c.Rank(), failed)
		}
		if err := AllReduceDevice(c, buf, buf, kernels.Sum, s.Handle()); !errors.Is(err, comm.ErrAborted) {
			return fmt.Errorf("a later call: %v", err)
		}
		return nil
	})
}

// Ranks whose calls differ find out.
func TestDeviceMismatch(t *testing.T) {
	needDevice(t)
	for _, counts := range [][2]int{{3, 4}, {100000, 100001}} {
		cs := local(t, 2)
		onDevices(t, cs, func(c *comm.Communicator, d *comm.Device, s cuda.Stream) error {
			mem, err := comm.AllocDevice(context.Background(), c, 1<<20)
			if err != nil {
				return err
			}
			buf := DeviceSliceOf[float32](mem.Ptr(), counts[c.Rank()])
			if err := AllReduceDevice(c, buf, buf, kernels.Sum, s.Handle()); err != nil {
				return err
			}
			if err := s.Synchronize(); err != nil {
				return err
			}
			if err := c.AsyncErr(); !errors.Is(err, comm.ErrMismatch) {
				return fmt.Errorf("rank %d: no mismatch: %v", c.Rank(), err)
			}
			return nil
		})
	}
}

// Between processes too; and one that is killed ends the others' calls.
func TestDeviceProcesses(t *testing.T) {
	needDevice(t)
	j := ranktest.Start(t, 2, "device")
	j.Succeed(t, 2*time.Minute)
	j = ranktest.Start(t, 3, "devicekill")
	require.NoError(t, j.Ranks[0].WaitFor("enqueued", time.Minute))
	require.NoError(t, j.Ranks[1].WaitFor("enqueued", time.Minute))
	require.NoError(t, j.Ranks[2].WaitFor("ready", time.Minute))
	start := time.Now()
	require.NoError(t, j.Ranks[2].Signal(syscall.SIGKILL))
	for _, r := range j.Ranks[:2] {
		require.NoError(t, r.Wait(20*time.Second), r.Output())
	}
	require.Less(t, time.Since(start), 20*time.Second)
}

func deviceProgram() error {
	c, err := comm.Init(context.Background())
	if err != nil {
		return err
	}
	return errors.Join(withDevice(c, func(d *comm.Device, s cuda.Stream) error { return deviceCalls(c, d, s) }), c.Close())
}

// deviceKillProgram makes a call for which rank 2 does not come: it is killed.
func deviceKillProgram() error {
	c, err := comm.Init(context.Background(), comm.WithTimeout(time.Minute))
	if err != nil {
		return err
	}
	return errors.Join(withDevice(c, func(d *comm.Device, s cuda.Stream) error {
		mem, err := comm.AllocDevice(context.Background(), c, 4<<20)
		if err != nil {
			return err
		}
		buf := DeviceSliceOf[float32](mem.Ptr(), 1<<20)
		if err := BarrierDevice(c, s.Handle()); err != nil {
			return err
		}
		if c.Rank() == 2 {
			fmt.Fprintln(os.Stderr, "ready")
			select {}
		}
		if err := AllReduceDevice(c, buf, buf, kernels.Sum, s.Handle()); err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, "enqueued")
		if err := s.Synchronize(); err != nil {
			return err
		}
		if err := c.AsyncErr(); !errors.Is(err, comm.ErrPeerDead) {
			return fmt.Errorf("rank 2 was killed, and the error is %v", err)
		}
		return nil
	}), onlyIf(c.Close()))
}

// onlyIf leaves out what Close says of a communicator that has ended.
func onlyIf(err error) error {
	if errors.Is(err, comm.ErrAborted) {
		return nil
	}
	return err
}
