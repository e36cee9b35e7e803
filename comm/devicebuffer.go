package comm

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/weft-go/weft/comm/bootstrap"
	"github.com/weft-go/weft/internal/cuda"
	layout "github.com/weft-go/weft/kernels/cuda"
	"github.com/weft-go/weft/transport/pointer/device"
)

// A DeviceBuffer is memory on each rank's device that the devices of all ranks of a
// communicator reach: collectives on devices whose operands lie in such buffers are faster.
type DeviceBuffer struct {
	d      *Device
	number int // from 1, the same on all ranks
	mem    *device.Memory
	peers  []*device.Memory // nil at this rank
	bytes  int
	freed  atomic.Bool
}

// AllocDevice returns zeroed memory of so many bytes on each rank's device, aligned to
// 2 MiB and rounded up to that. All ranks call it with the same size; it blocks until
// all have. If the memory can't be had on one rank, all get an error and the
// communicator stays usable.
//
// Which device a rank has is up to [WithDevice]. The driver is loaded when it is first
// needed; without one, or a device, the error is an [ErrNoDevice].
func AllocDevice(ctx context.Context, c *Communicator, bytes int) (*DeviceBuffer, error) {
	call := Call{Collective: OpAllocDevice, Count: bytes, ElemBytes: 1}
	return newDeviceBuffer(ctx, c, call, func(d *Device) (*device.Memory, error) {
		return d.dev.Alloc(max(bytes, 1))
	})
}

// Register makes another library's memory on this rank's device a DeviceBuffer: what
// cudaMalloc or an allocator over it has returned, or memory mapped by cuMemMap that was
// made for descriptors. The range may be part of an allocation; all of that is opened to
// the peers. All ranks call it with the same size, each with memory of its own; it blocks
// until all have. The memory must not be freed before [DeviceBuffer.Free] or the
// communicator's Close have returned on all ranks.
func Register(ctx context.Context, c *Communicator, ptr uintptr, bytes int) (*DeviceBuffer, error) {
	call := Call{Collective: OpRegister, Count: bytes, ElemBytes: 1}
	return newDeviceBuffer(ctx, c, call, func(d *Device) (*device.Memory, error) {
		return d.dev.Adopt(cuda.Ptr(ptr), bytes)
	})
}

func newDeviceBuffer(ctx context.Context, c *Communicator, call Call, memory func(*Device) (*device.Memory, error)) (*DeviceBuffer, error) {
	if c != nil && (call.Count < 0 || int64(call.Count) >= maxCount || call.Count == 0 && call.Collective == OpRegister) {
		return nil, c.refuse(call, fmt.Errorf("%w: %d bytes", ErrArgument, call.Count))
	}
	if c == nil {
		return nil, &OpError{Call: call, Rank: -1, Err: ErrNil}
	}
	d, err := c.OpenDevice(ctx)
	if err != nil {
		var op *OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return nil, c.refuse(call, fmt.Errorf("opening the devices: %w", err)) // not OpenDevice, which nobody called
	}
	if _, err := c.Begin(ctx, call); err != nil {
		return nil, err
	}
	b := &DeviceBuffer{d: d, bytes: call.Count}
	b.number, err = d.reserve(b)
	if err == nil {
		b.mem, err = memory(d)
	}
	b.peers, err = d.share(ctx, b.mem, err, b.publish)
	if err = c.endAgreed(call, err); err != nil {
		return nil, errors.Join(err, b.release())
	}
	return b, nil
}

// reserve gives a buffer the lowest number that is free, which is the same on all ranks.
func (d *Device) reserve(b *DeviceBuffer) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.Index(d.buffers[:], nil)
	if i < 0 {
		return 0, fmt.Errorf("%w: the communicator has %d device buffers already", ErrArgument, len(d.buffers))
	}
	d.buffers[i] = b
	return i + 1, nil
}

// publish writes where the buffer is on each rank into the segment, where kernels look,
// and has Find know it.
func (b *DeviceBuffer) publish(peers []*device.Memory) error {
	at := make([]cuda.Ptr, len(peers))
	for p, m := range peers {
		if p == b.d.c.rank {
			m = b.mem
		}
		at[p] = m.Ptr
	}
	if err := b.d.tabulate(b.number, at); err != nil {
		return err
	}
	b.d.place(func(list []*DeviceBuffer) []*DeviceBuffer { return append(list, b) })
	return nil
}

// tabulate writes a buffer's addresses into the table of this rank's segment.
func (d *Device) tabulate(number int, at []cuda.Ptr) error {
	for p, ptr := range at {
		entry := d.own.Ptr + layout.BufferTable + cuda.Ptr(8*(p*layout.MaxBuffers+number-1))
		if err := d.dev.Context.CopyHtoD(entry, binary.LittleEndian.AppendUint64(nil, uint64(ptr))); err != nil {
			return err
		}
	}
	// A copy may end after the call, and kernels on other streams don't wait for it.
	return d.dev.Context.Stream(0).Synchronize()
}

func (d *Device) place(change func([]*DeviceBuffer) []*DeviceBuffer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []*DeviceBuffer
	if l := d.places.Load(); l != nil {
		list = slices.Clone(*l)
	}
	list = change(list)
	slices.SortFunc(list, func(a, b *DeviceBuffer) int { return cmp.Compare(a.mem.Ptr, b.mem.Ptr) })
	d.places.Store(&list)
}

// Find says in which buffer a range of this rank's device lies, and where in it;
// number 0 is none. It allocates nothing and may be called at any time.
func (d *Device) Find(ptr uintptr, bytes int) (number int, offset uint64) {
	l := d.places.Load()
	if l == nil {
		return 0, 0
	}
	for _, b := range *l {
		start := uintptr(b.mem.Ptr)
		if start > ptr {
			break
		}
		if off := ptr - start; off <= uintptr(b.bytes) && uintptr(bytes) <= uintptr(b.bytes)-off {
			return b.number, uint64(off)
		}
	}
	return 0, 0
}

// Ptr is the address of this rank's memory, for its device. It is 0 after Free.
func (b *DeviceBuffer) Ptr() uintptr {
	if b == nil || b.mem == nil || b.freed.Load() {
		return 0
	}
	return uintptr(b.mem.Ptr)
}

// Peer is the address at which this rank's device reaches a rank's memory, or 0 if
// there is no such rank. Who writes there when is to be ordered by collectives.
func (b *DeviceBuffer) Peer(rank int) uintptr {
	switch {
	case b == nil || b.freed.Load() || rank < 0 || rank >= len(b.peers):
		return 0
	case rank == b.d.c.rank:
		return uintptr(b.mem.Ptr)
	}
	return uintptr(b.peers[rank].Ptr)
}

// Len is the number of bytes on each rank.
func (b *DeviceBuffer) Len() int {
	if b == nil {
		return 0
	}
	return b.bytes
}

// Free gives the memory back; of registered memory, it ends the peers' access, and its
// owner may free it when Free has returned. All ranks call it. It waits for all
// work of this rank's device, whosever it is, and then until all ranks have done so. When the
// communicator has ended, as a rank died for one, it does not wait for others. A second Free
// does nothing; a buffer that was not made is an [ErrArgument].
func (b *DeviceBuffer) Free() error {
	if b == nil || b.freed.Load() {
		return nil
	}
	if b.d == nil {
		return fmt.Errorf("weft: DeviceBuffer.Free: %w: AllocDevice or Register did not make this buffer", ErrArgument)
	}
	c := b.d.c
	call := Call{Collective: OpFreeDevice, Count: b.number}
	ctx := context.Background()
	told := c.told.Load()
	_, err := c.Begin(ctx, call)
	if errors.Is(err, ErrConcurrent) {
		return err // nothing has happened
	}
	work := b.d.dev.Context.Synchronize()
	if err == nil {
		_, err = c.exchange(ctx, bootstrap.Message{})
		err = c.End(err)
	} else {
		err = nil // it is no failure of Free that the communicator has ended
		c.told.Store(told)
	}
	return errors.Join(err, work, b.release())
}

// release gives up what this rank has of the buffer, whose number is then free.
func (b *DeviceBuffer) release() error {
	if b.freed.Swap(true) {
		return nil
	}
	d := b.d
	var err error
	if b.number != 0 {
		if d.own != nil && b.mem != nil {
			err = d.tabulate(b.number, make([]cuda.Ptr, len(d.segments)))
		}
		d.place(func(list []*DeviceBuffer) []*DeviceBuffer {
			return slices.DeleteFunc(list, func(o *DeviceBuffer) bool { return o == b })
		})
		d.mu.Lock()
		d.buffers[b.number-1] = nil
		d.mu.Unlock()
	}
	for _, m := range b.peers {
		err = errors.Join(err, m.Release())
	}
	return errors.Join(err, b.mem.Release())
}
