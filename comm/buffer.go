package comm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/progress"
)

// A Buffer is symmetric memory: every rank of a communicator has one of the
// same length, and each can reach the others' directly, where memory is mapped.
// Collectives whose slices lie in the same Buffer on all ranks do, and are faster.
// When such a call fails, others may write to its slices until Close has returned.
type Buffer[T kernels.Number] struct {
	*buffer
	n int
}

// buffer is a Buffer without its element type.
type buffer struct {
	c     *Communicator
	mem   transport.Memory
	own   transport.Endpoint
	peers []transport.Endpoint
	once  sync.Once
	freed atomic.Bool
	err   error
}

// Alloc returns zeroed symmetric memory of n elements on each rank. All ranks
// call it with the same n and T; it blocks until all have. If the memory can't
// be had on one rank, all get an error and the communicator stays usable.
func Alloc[T kernels.Number](ctx context.Context, c *Communicator, n int) (*Buffer[T], error) {
	t := kernels.TypeOf[T]()
	call := Call{Collective: OpAlloc, Count: n, Type: t}
	if c != nil && (n < 0 || int64(n) >= maxCount/int64(t.Size())) {
		return nil, c.refuse(call, fmt.Errorf("%w: %d elements", ErrArgument, n))
	}
	if _, err := c.Begin(ctx, call); err != nil {
		return nil, err
	}
	b := &buffer{c: c}
	err := b.open(ctx, uint64(max(n*t.Size(), 1)))
	c.mu.Lock()
	c.buffers[b] = struct{}{}
	c.mu.Unlock()
	if err = c.endAgreed(call, err); err != nil {
		// Not before all know: others may be importing it.
		if errors.Is(err, ErrClosed) {
			return nil, err // Close frees it, when they do
		}
		return nil, errors.Join(err, b.free())
	}
	c.place(b)
	return &Buffer[T]{b, n}, nil
}

// endAgreed ends a call whose refusal all ranks know of.
func (c *Communicator) endAgreed(call Call, err error) error {
	var agreed *refusal
	if !errors.As(err, &agreed) {
		return c.End(err)
	}
	seq := callState(c.state.Load()).seq()
	if err := c.End(nil); err != nil {
		return err
	}
	return &OpError{Call: call, Rank: c.rank, Seq: seq, Err: agreed}
}

// open makes the memory and imports that of the others. No rank goes on before
// all have both.
func (b *buffer) open(ctx context.Context, bytes uint64) error {
	t := b.c.world.transport
	var x transport.Exported
	bytes = (bytes + t.Limits().BindAlign - 1) / t.Limits().BindAlign * t.Limits().BindAlign
	var err error
	if b.mem, err = t.Alloc(bytes); err == nil {
		if b.own, err = t.Create(transport.EndpointConfig{Size: bytes}); err == nil {
			if err = b.own.Ready(ctx); err == nil {
				if err = b.own.Bind(0, b.mem); err == nil {
					x, err = b.own.Export()
				}
			}
		}
	}
	if ctx.Err() != nil {
		err = &progress.WaitError{Peer: b.c.rank, Err: ctx.Err()}
	} else {
		err = b.c.agree(ctx, err)
	}
	if err != nil {
		x.Close()
		return err
	}
	b.peers, err = progress.ImportAll(ctx, t, b.own, x, b.c.rank, b.c.exchangeExports)
	if isStop(err, b.c) {
		return err
	}
	return b.c.agree(ctx, err)
}

// isStop says whether err is not a failure of this rank alone: the end of a wait for
// others, or what comes of it that another rank gives up.
func isStop(err error, c *Communicator) bool {
	var wait *progress.WaitError
	var mismatch *progress.MismatchError
	return err != nil && (errors.As(err, &wait) || errors.As(err, &mismatch) || c.ending() || c.ctx.Err() != nil)
}

// Slice returns this rank's memory. It must not be used after Free or the
// communicator's Close, when Slice returns nil.
func (b *Buffer[T]) Slice() []T {
	if b == nil || b.freed.Load() {
		return nil
	}
	return kernels.Slice[T](b.mem.Bytes())[:b.n:b.n]
}

// Peer returns a rank's memory as this rank sees it, or nil if it is not mapped.
// What others write there is to be ordered by collectives, [collectives.Barrier]
// for one.
//
// [collectives.Barrier]: https://pkg.go.dev/github.com/weft-go/weft/collectives#Barrier
func (b *Buffer[T]) Peer(rank int) []T {
	if b == nil || b.freed.Load() || rank < 0 || rank >= b.c.Size() {
		return nil
	}
	if rank == b.c.rank {
		return b.Slice()
	}
	m, ok := b.c.world.transport.(transport.Mapper)
	if !ok {
		return nil
	}
	bytes, err := m.Map(transport.Handle{ID: b.peers[rank].ID()}, b.peers[rank].Size())
	if err != nil {
		return nil
	}
	return kernels.Slice[T](bytes)[:b.n:b.n]
}

// Len is the number of elements on each rank.
func (b *Buffer[T]) Len() int {
	if b == nil {
		return 0
	}
	return b.n
}

// Free gives the memory back on this rank; its slices must not be used after.
// Each rank frees its own; what peers still hold of it stays valid for them until
// they free theirs. A second Free does nothing.
func (b *Buffer[T]) Free() error {
	if b == nil {
		return nil
	}
	return b.buffer.free()
}

func (b *buffer) free() error {
	b.once.Do(func() {
		b.freed.Store(true)
		b.c.mu.Lock()
		delete(b.c.buffers, b)
		b.c.unplace(b)
		b.c.mu.Unlock()
		b.err = b.close()
	})
	return b.err
}

func (b *buffer) close() error {
	var errs []error
	for _, p := range b.peers {
		if p != nil {
			errs = append(errs, p.Destroy())
		}
	}
	if b.own != nil {
		errs = append(errs, b.own.Destroy())
	}
	if b.mem != nil {
		errs = append(errs, b.mem.Free())
	}
	return errors.Join(errs...)
}

func (c *Communicator) liveBuffers() []freer {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]freer, 0, len(c.buffers))
	for b := range c.buffers {
		list = append(list, b)
	}
	return list
}
