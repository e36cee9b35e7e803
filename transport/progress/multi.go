package progress

import (
	"context"
	"errors"
	"fmt"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
)

// multi is the communicator's multicast memory: a replica on each rank, made
// when a call first needs it.
type multi struct {
	mem   transport.Memory
	ep    transport.Endpoint
	bytes uint64
}

// OpenMulti sees to it that there are at least the given bytes of multicast
// memory. All ranks call it in the same call with the same size. What the memory
// held before is lost when it grows; it is zero then.
func (e *Engine) OpenMulti(ctx context.Context, bytes uint64) error {
	if bytes <= e.multi.bytes {
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
	at := transport.Handle{ID: e.multi.ep.ID(), Offset: offset}
	for from := 0; from < whole; {
		n := min(whole-from, transport.MaxPutBytes)
		if err := e.t.PutMultimem(e.phase, at.Add(uint64(from)), data[from:from+n]); err != nil {
			return err
		}
		if err := e.finish(transport.OpPutMultimem, e.cfg.Rank, at, 0); err != nil {
			return err
		}
		from += n
	}
	if rest := copy(e.stage, data[whole:]); rest > 0 {
		if err := e.t.PutMultimem(e.phase, at.Add(uint64(whole)), padded(e.stage, rest)); err != nil {
			return err
		}
		return e.finish(transport.OpPutMultimem, e.cfg.Rank, at, 0)
	}
	return nil
}

// PullReduce stores the reduction over all replicas of the len(dst) bytes at
// offset, a multiple of [transport.Granule], in dst.
func (e *Engine) PullReduce(dst []byte, offset uint64, op transport.RedOp, t kernels.Type) error {
	e.t.Fence(transport.FenceRelease) // our own replica was written through a pointer
	for len(dst) > 0 {
		n := min(len(dst), transport.MaxGetBytes)
		to := dst[:n]
		if n%transport.Granule != 0 {
			if n > transport.Granule { // the last unit is pulled apart
				n -= n % transport.Granule
				to = dst[:n]
			} else {
				to = e.stage[:transport.Granule]
			}
		}
		at := transport.Handle{ID: e.multi.ep.ID(), Offset: offset}
		if err := e.t.PullRed(e.phase, to, at, op, t); err != nil {
			return err
		}
		if err := e.finish(transport.OpPullRed, e.cfg.Rank, at, 0); err != nil {
			return err
		}
		if n < transport.Granule {
			copy(dst, to)
		}
		dst, offset = dst[n:], offset+uint64(n)
	}
	return nil
}
