package progress

import (
	"context"
	"errors"
	"fmt"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/progress/lane"
)

// multi is the communicator's multicast memory: a replica on each rank, made
// when a call first needs it.
type multi struct {
	mem   transport.Memory
	ep    transport.Endpoint
	bytes uint64
	// dirty: a put of this rank's was reported, and may land again at any time.
	dirty bool
}

// OpenMulti sees to it that there are at least the given bytes of multicast
// memory. All ranks call it in the same call with the same size. What the memory
// held before is lost when it grows; it is zero then. On a transport that may fail
// it is an all-gather of its own, and the memory is another one when a put to the old
// was reported, which may land there again: whoever puts to it calls OpenMulti first
// in every call.
func (e *Engine) OpenMulti(ctx context.Context, bytes uint64) error {
	fits := bytes <= e.multi.bytes
	if e.faulty && e.multi.ep != nil {
		dirty, err := e.anyDirty(ctx)
		if err != nil {
			return err
		}
		bytes, fits = max(bytes, e.multi.bytes), fits && !dirty
	}
	if fits {
		return nil
	}
	limits := e.t.Limits()
	if !limits.Multicast {
		return fmt.Errorf("progress: multicast memory: %w", transport.ErrUnsupported)
	}
	old := e.multi
	size := (bytes + limits.BindAlign - 1) / limits.BindAlign * limits.BindAlign
	mem, err := e.t.Alloc(size)
	if err != nil {
		return err
	}
	ep, err := e.t.JoinMulticast(ctx, transport.EndpointConfig{Size: size}, e.cfg.Rank, e.layout.Ranks, mem, e.cfg.Exchange)
	if err == nil {
		err = ep.Ready(ctx)
	}
	if err != nil {
		return errors.Join(err, mem.Free())
	}
	e.multi = multi{mem: mem, ep: ep, bytes: size}
	// All ranks have joined the new one, so none is in a call that uses the old one.
	return old.close()
}

// anyDirty asks the ranks whether some put to the multicast memory was reported.
func (e *Engine) anyDirty(ctx context.Context) (bool, error) {
	var mine transport.Exported
	if e.multi.dirty {
		mine.Handle[0] = 1
	}
	all, err := e.cfg.Exchange(ctx, mine)
	dirty := false
	for _, x := range all {
		dirty = dirty || x.Handle[0] != 0
		x.Close()
	}
	return dirty, err
}

func (m multi) close() error {
	var errs []error
	if m.ep != nil {
		errs = append(errs, m.ep.Destroy())
	}
	if m.mem != nil {
		errs = append(errs, m.mem.Free())
	}
	return errors.Join(errs...)
}

// Multi is this rank's replica of the multicast memory.
func (e *Engine) Multi() []byte {
	if e.multi.mem == nil {
		return nil
	}
	return e.multi.mem.Bytes()[:e.multi.bytes:e.multi.bytes]
}

// PutMulti copies data to offset of every rank's replica, this one's included.
// The bytes are there when it returns; that is news to the others only when a
// message tells them. The offset is a multiple of [transport.Granule]; what is
// between the end of the data and the next such multiple is overwritten as well.
func (e *Engine) PutMulti(offset uint64, data []byte) error {
	whole := len(data) / transport.Granule * transport.Granule
	for from := 0; from < whole; {
		n := min(whole-from, transport.MaxPutBytes)
		if err := e.putMulti(offset+uint64(from), data[from:from+n], true); err != nil {
			return err
		}
		from += n
	}
	if rest := copy(e.stage, data[whole:]); rest > 0 {
		return e.putMulti(offset+uint64(whole), padded(e.stage, rest), false)
	}
	return nil
}

func (e *Engine) putMulti(offset uint64, data []byte, holds bool) error {
	at := transport.Handle{ID: e.multi.ep.ID(), Offset: offset}
	e.stats[e.rank].Messages++
	e.stats[e.rank].Bytes += uint64(len(data))
	return e.repeat(transport.OpPutMultimem, e.rank, at, holds,
		func() error { return e.t.PutMultimem(e.phase, at, data) },
		func() { e.multi.dirty = true })
}

// PullReduce stores the reduction over all replicas of the len(dst) bytes at
// offset, a multiple of [transport.Granule], in dst.
func (e *Engine) PullReduce(dst []byte, offset uint64, op transport.RedOp, t kernels.Type) error {
	e.t.Fence(transport.FenceRelease) // our own replica was written through a pointer
	most := transport.MaxGetBytes
	if e.faulty {
		most = zoneBytes
	}
	for len(dst) > 0 {
		n := min(len(dst), most)
		to := dst[:n]
		if n%transport.Granule != 0 {
			if n > transport.Granule { // the last unit is pulled apart
				n -= n % transport.Granule
				to = dst[:n]
			} else {
				to = e.stage[:transport.Granule]
			}
		}
		if err := e.pull(to, offset, op, t); err != nil {
			return err
		}
		if n < transport.Granule {
			copy(dst, to)
		}
		dst, offset = dst[n:], offset+uint64(n)
	}
	return nil
}

func (e *Engine) pull(dst []byte, offset uint64, op transport.RedOp, t kernels.Type) error {
	at := transport.Handle{ID: e.multi.ep.ID(), Offset: offset}
	e.stats[e.rank].Messages++
	e.stats[e.rank].Bytes += uint64(len(dst))
	if !e.faulty {
		return e.repeat(transport.OpPullRed, e.rank, at, true, func() error { return e.t.PullRed(e.phase, dst, at, op, t) }, nil)
	}
	// What was reported may land later: in a zone of ours, which nobody uses again.
	var zone int
	err := e.repeat(transport.OpPullRed, e.rank, at, false,
		func() error {
			zone = e.zones.take()
			return e.t.PullRed(e.phase, e.zones.mem[zone][:len(dst)], at, op, t)
		},
		func() { e.zones.Retire(zone) })
	if err == nil {
		copy(dst, e.zones.mem[zone])
	}
	return err
}

// zones are where pulls land on a transport that may fail.
type zones struct {
	*lane.Zones
	mem [zoneCount][]byte
}

const (
	zoneBytes = 64 << 10
	zoneCount = 4
)

// take returns a zone; if none is left there are new ones, and the old memory
// belongs to what may still land in it.
func (z *zones) take() int {
	if z.Zones != nil {
		if i, ok := z.Take(); ok {
			if z.mem[i] == nil {
				z.mem[i] = make([]byte, zoneBytes)
			}
			return i
		}
	}
	*z = zones{Zones: lane.NewZones(zoneCount)}
	return z.take()
}
