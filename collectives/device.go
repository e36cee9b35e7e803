package collectives

import (
	"context"
	"errors"
	"fmt"

	"github.com/weft-go/weft/collectives/internal/device"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/cuda"
	"github.com/weft-go/weft/kernels"
	gpu "github.com/weft-go/weft/kernels/cuda"
	"github.com/weft-go/weft/transport/progress"
)

// ErrAlign: a device slice does not begin at a multiple of its elements' size.
var ErrAlign = errors.New("misaligned device slice")

// A DeviceSlice is elements in the memory of a rank's device. Any memory that the device
// reaches will do; calls on memory that all ranks know ([comm.AllocDevice], [comm.Register])
// are faster.
type DeviceSlice struct {
	Ptr   uintptr // a multiple of the size of an element
	Count int     // elements
	Type  kernels.Type
}

// DeviceSliceOf is count elements of T at a device's address.
func DeviceSliceOf[T kernels.Number](ptr uintptr, count int) DeviceSlice {
	return DeviceSlice{Ptr: ptr, Count: count, Type: kernels.TypeOf[T]()}
}

// bytes is the length. It is right for slices that were checked.
func (s DeviceSlice) bytes() int { return s.Count * s.Type.Size() }

// from is count elements from one on.
func (s DeviceSlice) from(at, count int) DeviceSlice {
	return DeviceSlice{s.Ptr + uintptr(at*s.Type.Size()), count, s.Type}
}

// check says what is wrong with a slice of itself.
func (s DeviceSlice) check(name string) error {
	size := s.Type.Size()
	switch {
	case size == 0:
		return fmt.Errorf("%w: %s is of %v", ErrType, name, s.Type)
	case s.Count < 0 || uint64(s.Count) >= maxDeviceBytes/uint64(size):
		return fmt.Errorf("%w: %s has %d", ErrCount, name, s.Count)
	case s.Count > 0 && s.Ptr == 0:
		return fmt.Errorf("%w: %s is at address 0", comm.ErrArgument, name)
	case s.Ptr+uintptr(s.bytes()) < s.Ptr:
		return fmt.Errorf("%w: %s is of %d bytes at %#x, beyond the end of all memory", comm.ErrArgument, name, s.bytes(), s.Ptr)
	case s.Ptr%uintptr(size) != 0:
		return fmt.Errorf("%w: %s is at %#x, of elements of %d bytes", ErrAlign, name, s.Ptr, size)
	}
	return nil
}

const maxDeviceBytes = 1 << 46

// apartFrom says whether slices share nothing.
func (s DeviceSlice) apartFrom(o DeviceSlice) bool {
	a, b := uintptr(s.bytes()), uintptr(o.bytes())
	return a == 0 || b == 0 || o.Ptr-s.Ptr >= a && s.Ptr-o.Ptr >= b // no sum, which could wrap
}

// sameAs says whether slices are the same memory.
func (s DeviceSlice) sameAs(o DeviceSlice) bool {
	return s.bytes() == o.bytes() && (s.Count == 0 || s.Ptr == o.Ptr)
}

// deviceCall is a call on devices with its arguments, which is not enqueued yet.
type deviceCall struct {
	c        *comm.Communicator
	call     comm.Call
	err      error // why it is refused
	dst, src DeviceSlice
	count    int // elements of a block
	blocks   *gpu.Blocks
	to, from int // of a message; −1: none
}

// newDeviceCall looks at what all calls have in common. dst and src are of the same type.
func newDeviceCall(c *comm.Communicator, k comm.Collective, dst, src DeviceSlice, count int) deviceCall {
	d := deviceCall{c: c, dst: dst, src: src, count: count, to: -1, from: -1}
	d.call = comm.Call{Collective: k, Count: max(count, 0), Type: src.Type, Device: true}
	d.err = first(checkCommunicator(c), dst.check("dst"), src.check("src"))
	if d.err == nil && dst.Type != src.Type {
		d.err = fmt.Errorf("%w: dst is of %v, src of %v", ErrType, dst.Type, src.Type)
	}
	return d
}

// refuse has the call refused for a reason, unless there is one already.
func (d *deviceCall) refuse(err error) {
	if d.err == nil {
		d.err = err
	}
}

// reduceBy checks the operator.
func (d *deviceCall) reduceBy(op kernels.Op) {
	d.call.Op = op
	if !gpu.Supports(d.src.Type, op) {
		d.refuse(fmt.Errorf("%w: %v of %v on devices", ErrOperator, op, d.src.Type))
	}
}

// counts checks the number of elements of a slice.
func (d *deviceCall) counts(name string, s DeviceSlice, want int) {
	if s.Count != want {
		d.refuse(fmt.Errorf("%w: %s has %d, not %d", ErrCount, name, s.Count, want))
	}
}

// alias allows slices that share nothing or are the same.
func (d *deviceCall) alias() {
	if d.err == nil && !d.dst.sameAs(d.src) && !d.dst.apartFrom(d.src) {
		d.err = ErrOverlap
	}
}

// enqueue puts a collective on a stream.
func (d *deviceCall) enqueue(stream uintptr) error {
	g, err := d.group()
	if err != nil {
		return err
	}
	seq, history, err := d.c.BeginEnqueue(d.call)
	if err != nil {
		return err
	}
	k := d.kernelCall(g)
	k.Seq, k.Hash = seq, history
	return d.c.EndEnqueue(g.Enqueue(g.stream(stream), &k))
}

// post puts a message on a stream. Messages are not numbered: not all ranks make them.
func (d *deviceCall) post(stream uintptr) error {
	g, err := d.group()
	if err != nil {
		return err
	}
	if err := d.c.AsyncErr(); err != nil {
		return refuse(d.c, d.call, err)
	}
	k := d.kernelCall(g)
	k.Hash = uint32(d.src.Type)*0x9e3779b1 ^ uint32(d.count)*0x85ebca6b ^ uint32(uint64(d.count)>>32)
	if err := g.Enqueue(g.stream(stream), &k); err != nil {
		return refuse(d.c, d.call, err)
	}
	return nil
}

// group checks the call, and returns what carries it out.
func (d *deviceCall) group() (*deviceGroup, error) {
	if d.err != nil {
		return nil, refuse(d.c, d.call, d.err)
	}
	if g, ok := d.c.Extension().(*deviceGroup); ok {
		return g, nil
	}
	// Only the first call of the communicator comes here, and waits for all ranks.
	dev, err := d.c.OpenDevice(context.Background())
	if err != nil {
		return nil, d.notOpen(err)
	}
	x, err := d.c.Extend(context.Background(), func() (any, error) { return openDeviceGroup(d.c, dev) })
	if err != nil {
		return nil, d.notOpen(err)
	}
	return x.(*deviceGroup), nil
}

// notOpen has an error name the call that was made, and not what had to come before.
func (d *deviceCall) notOpen(err error) error {
	var op *comm.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return refuse(d.c, d.call, fmt.Errorf("opening the devices: %w", err))
}

func (d *deviceCall) kernelCall(g *deviceGroup) device.Call {
	moves := d.call.Collective == comm.OpAllToAll || d.call.Collective == comm.OpAllToAllV
	return device.Call{
		Collective: d.call.Collective, Count: d.count, Type: d.src.Type, ElemBytes: d.src.Type.Size(), Op: d.call.Op, Root: d.call.Root,
		Dst: g.memory(d.dst), Src: g.memory(d.src), InPlace: moves && !d.dst.apartFrom(d.src), Blocks: d.blocks, To: d.to, From: d.from,
	}
}

// deviceGroup is a communicator's kernels on this rank's device.
type deviceGroup struct {
	*device.Group
	dev *comm.Device
}

func openDeviceGroup(c *comm.Communicator, dev *comm.Device) (*deviceGroup, error) {
	g, err := device.New(device.Config{Context: dev.Context(), Rank: c.Rank(), Lanes: dev.Lanes(), Segments: dev.Segments(), Timeout: c.Timeout()})
	if err != nil {
		return nil, err
	}
	remove := dev.OnStop(g.Abort)
	c.SetLater(g.Failed(), func() (uint64, error) { return laterError(c, g.Failure()) })
	dev.OnClose(func() error {
		remove()
		return g.End()
	})
	dev.OnFree(g.Free)
	return &deviceGroup{g, dev}, nil
}

func (g *deviceGroup) stream(handle uintptr) cuda.Stream { return g.dev.Context().Stream(handle) }

func (g *deviceGroup) memory(s DeviceSlice) device.Memory {
	number, offset := g.dev.Find(s.Ptr, s.bytes())
	return device.Memory{Ptr: cuda.Ptr(s.Ptr), Buffer: number, Offset: offset}
}

// laterError is what a kernel's record is to the communicator.
func laterError(c *comm.Communicator, r *gpu.Record) (seq uint64, err error) {
	if r == nil {
		return 0, nil
	}
	reason, peer, note := r.Reason, int(r.Peer), ""
	if reason == gpu.Poisoned {
		// What counts is what the other kernel had; it names itself where it was this rank's fault.
		reason, peer = r.Cause()
		note = fmt.Sprintf("; rank %d was first to find out", r.Peer)
		if peer == c.Rank() {
			peer = int(r.Peer)
		}
	}
	what := fmt.Sprintf("%v: on the device, rank %d waited for %v of rank %d (lane %d, epoch %d, step %d: %#x, not %#x)%s",
		reason, c.Rank(), r.Awaited, r.Peer, r.Lane, r.Epoch, r.Step, r.Seen, r.Want, note)
	switch reason {
	case gpu.Timeout:
		return r.Seq, &progress.WaitError{Peer: peer, Got: r.Seen, Want: r.Want, Err: context.DeadlineExceeded}
	case gpu.Mismatch:
		return r.Seq, &progress.MismatchError{Peer: peer, Note: "found on the device" + note}
	}
	return r.Seq, errors.New(what)
}
