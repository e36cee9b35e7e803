package comm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weft-go/weft/comm/bootstrap"
	"github.com/weft-go/weft/internal/cuda"
	layout "github.com/weft-go/weft/kernels/cuda"
	"github.com/weft-go/weft/transport/pointer/device"
)

// ErrNoDevice: there is no CUDA driver, or no such device, on some rank; it is on all
// ranks that errors.Is says so, and the error which rank that is and what was looked for.
var ErrNoDevice = errors.New("no CUDA device")

// Device is what a communicator has on this rank's GPU: a segment of memory that all
// ranks' devices reach, for what collectives keep there, and the [DeviceBuffer]s. For
// those who write collectives.
type Device struct {
	c        *Communicator
	dev      *device.Device
	lanes    int
	own      *device.Memory
	peers    []*device.Memory // the others' segments, nil at this rank
	segments []cuda.Ptr
	names    []string // of all ranks' devices

	mu      sync.Mutex
	buffers [layout.MaxBuffers]*DeviceBuffer // by number − 1
	onClose []func() error
	onFree  []func() error
	once    sync.Once
	closing sync.Once
	err     error

	places atomic.Pointer[[]*DeviceBuffer] // by address, for Find
}

// OpenDevice returns what the communicator has on this rank's GPU. The first time, all
// ranks call it, and it blocks until all have; it loads the driver and allocates the
// segments. AllocDevice and Register do so by themselves. If it can't be had on one
// rank, all get an error ([ErrNoDevice] for one) and the communicator stays usable.
func (c *Communicator) OpenDevice(ctx context.Context) (*Device, error) {
	if c != nil {
		if d := c.device.Load(); d != nil {
			return d, nil
		}
	}
	call := Call{Collective: OpOpenDevice}
	if c != nil && c.Size() > layout.MaxRanks {
		return nil, c.refuse(call, fmt.Errorf("%w: %d ranks, on devices at most %d are possible", ErrArgument, c.Size(), layout.MaxRanks))
	}
	if _, err := c.Begin(ctx, call); err != nil {
		return nil, err
	}
	d := &Device{c: c}
	err := c.endAgreed(call, d.open(ctx))
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	c.device.Store(d)
	return d, nil
}

// open opens the device and makes and exchanges the segments.
func (d *Device) open(ctx context.Context) error {
	c := d.c
	var sms int
	var err error
	d.dev, err = device.Open(c.deviceOrdinal())
	if err == nil {
		sms, err = d.dev.Context.Device().Attribute(cuda.MultiprocessorCount)
	} else if errors.Is(err, cuda.ErrNoDriver) || errors.Is(err, cuda.NoDevice) || errors.Is(err, cuda.InvalidDevice) || errors.Is(err, errNoSuchDevice) {
		err = fmt.Errorf("%w: %w", ErrNoDevice, err)
	}
	if err = c.agree(ctx, err); err != nil {
		return err
	}

	// The lanes are the fewest that any rank can have.
	data := binary.LittleEndian.AppendUint32(nil, uint32(sms))
	data = append(append(data, d.dev.UUID[:]...), d.dev.Name...)
	all, err := c.exchange(ctx, bootstrap.Message{Data: data})
	if err != nil {
		return err
	}
	const fixed = 4 + len(cuda.UUID{})
	sharers := map[cuda.UUID]int{}
	for p, m := range all {
		if len(m.Data) < fixed {
			return c.agree(ctx, fmt.Errorf("%w: rank %d", device.ErrExport, p)) // which all see
		}
		sharers[cuda.UUID(m.Data[4:fixed])]++
	}
	d.lanes = layout.MaxLanes
	for _, m := range all {
		d.lanes = min(d.lanes, layout.Lanes(int(binary.LittleEndian.Uint32(m.Data)), sharers[cuda.UUID(m.Data[4:fixed])]))
		d.names = append(d.names, fmt.Sprintf("%s %s", m.Data[fixed:], cuda.UUID(m.Data[4:fixed])))
	}

	d.own, err = d.dev.Alloc(layout.SegmentBytes(c.Size(), d.lanes))
	d.peers, err = d.share(ctx, d.own, err, nil)
	if err != nil {
		return err
	}
	for p, m := range d.peers {
		if p == c.rank {
			m = d.own
		}
		d.segments = append(d.segments, m.Ptr)
	}
	return nil
}

// errNoSuchDevice is a number that was asked for and is none.
var errNoSuchDevice = errors.New("no such device")

// deviceOrdinal is the number of this rank's device, or one that is none.
func (c *Communicator) deviceOrdinal() int {
	if i := c.world.settings.device; i >= 0 {
		return i
	}
	n, err := device.Count()
	if err != nil || n == 0 {
		return 0 // opening it says what is wrong
	}
	// By the rank in the job, so that all communicators of a process have one device.
	local, me := 0, c.world.ch.Rank()
	for r := range me {
		if c.world.ch.Peer(r).Node == c.world.ch.Peer(me).Node {
			local++
		}
	}
	return local % n
}

// share gives memory to all other ranks and takes theirs. err is why there is none,
// and then is called, if not nil, when this rank has all; if one rank fails, all do.
// What it returns is to be released even if there is an error.
func (d *Device) share(ctx context.Context, mine *device.Memory, err error, then func(peers []*device.Memory) error) ([]*device.Memory, error) {
	c := d.c
	var x device.Export
	if err == nil {
		x, err = mine.Export(c.world.inProcess)
	}
	if err = c.agree(ctx, err); err != nil {
		closeExport(x)
		return nil, err
	}
	m := bootstrap.Message{Data: x.Data, Ref: x.Ref}
	if x.File != nil {
		m.Files = append(m.Files, x.File)
	}
	all, err := c.exchange(ctx, m)
	closeExport(x)
	if err != nil {
		return nil, err
	}
	peers := make([]*device.Memory, len(all))
	for p, m := range all {
		if p == c.rank {
			continue
		}
		from := device.Export{Data: m.Data, Ref: m.Ref}
		if len(m.Files) > 0 {
			from.File = m.Files[0]
		}
		if err == nil {
			peers[p], err = d.dev.Import(from)
			if errors.Is(err, device.ErrUnreachable) {
				err = fmt.Errorf("%w: %w", ErrUnreachable, err)
			}
			if err != nil {
				err = fmt.Errorf("memory of rank %d: %w", p, err)
			}
		}
		closeFiles(m)
	}
	if err == nil && then != nil {
		err = then(peers)
	}
	if isStop(err, c) {
		return peers, err
	}
	return peers, c.agree(ctx, err)
}

func closeExport(x device.Export) {
	if x.File != nil {
		x.File.Close()
	}
}

// Context is the primary context of this rank's device.
func (d *Device) Context() *cuda.Context { return d.dev.Context }

// Lanes is the number of lanes that segments are laid out for, on all ranks.
func (d *Device) Lanes() int { return d.lanes }

// Segments are all ranks' segments, where this rank's device has them. They were
// zeroed, and belong to the collectives but for the table of buffers.
func (d *Device) Segments() []cuda.Ptr { return d.segments }

// SegmentBytes is how much of a device's memory a rank's segment takes.
func (d *Device) SegmentBytes() int { return d.dev.RoundUp(d.own.Bytes) }

// Name describes a rank's device, for people.
func (d *Device) Name(rank int) string { return d.names[rank] }

// OnStop has f called when the communicator ends, or now if it has, until remove is
// called. It must not block.
func (d *Device) OnStop(f func()) (remove func()) { return d.c.stop.OnSet(f) }

// OnClose has f called first of all when the communicator is closed. It is to see to
// it that nothing runs on the device that needs the communicator's memory.
func (d *Device) OnClose(f func() error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onClose = append(d.onClose, f)
}

// OnFree has f called when the communicator is closed and no call of it runs any more,
// before the device is given back. It is not called if the communicator's memory is kept.
func (d *Device) OnFree(f func() error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onFree = append(d.onFree, f)
}

// quiesce makes the calls of OnClose, the latest first.
func (d *Device) quiesce() error {
	var err error
	d.closing.Do(func() {
		d.mu.Lock()
		calls := d.onClose
		d.mu.Unlock()
		for _, f := range slices.Backward(calls) {
			err = errors.Join(err, f())
		}
	})
	return err
}

// close gives back what this rank has. Memory that peers still map stays for them.
func (d *Device) close() error {
	d.once.Do(func() {
		if d.dev == nil {
			return
		}
		errs := []error{d.dev.Context.Synchronize()}
		d.mu.Lock()
		calls := d.onFree
		d.mu.Unlock()
		for _, f := range calls {
			errs = append(errs, f())
		}
		for _, b := range d.buffers {
			if b != nil {
				errs = append(errs, b.release())
			}
		}
		for _, m := range d.peers {
			errs = append(errs, m.Release())
		}
		errs = append(errs, d.own.Release(), d.dev.Close())
		d.err = errors.Join(errs...)
	})
	return d.err
}
