package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/weft-go/weft/bench/peers/nccl"
	"github.com/weft-go/weft/collectives"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/cuda"
)

// gpu is what a rank has of its GPU, for all contenders: one stream, and the events between
// which time is taken.
type gpu struct {
	c          *comm.Communicator
	context    *cuda.Context
	stream     cuda.Stream
	start, end cuda.Event
	timeout    time.Duration
	nccl       *nccl.Comm // of the peer, if it is that
}

// openGPU opens this rank's GPU, when all ranks have.
func openGPU(ctx context.Context, c *comm.Communicator, timeout time.Duration) (*gpu, error) {
	d, err := c.OpenDevice(ctx)
	if err != nil {
		return nil, fmt.Errorf("-device cuda: %w", err)
	}
	g := &gpu{c: c, context: d.Context(), timeout: timeout}
	if g.stream, err = g.context.NewStream(0); err != nil {
		return nil, err
	}
	if g.start, err = g.context.NewEvent(true); err != nil {
		return nil, err
	}
	if g.end, err = g.context.NewEvent(true); err != nil {
		return nil, err
	}
	return g, nil
}

// close gives up what openGPU has made, when all work is done.
func (g *gpu) close() error {
	var err error
	if g.nccl != nil {
		err = g.nccl.Do(g.nccl.Destroy)
	}
	return errors.Join(err, g.start.Destroy(), g.end.Destroy(), g.stream.Destroy())
}

// abort ends NCCL's kernels, whose waits nobody else ends; ours end with the communicator.
func (g *gpu) abort() {
	if g != nil && g.nccl != nil {
		_ = g.nccl.Do(g.nccl.Abort) // there is an error already
		g.nccl = nil
	}
}

// time returns how long the GPU takes for what f enqueues, from when all ranks' GPUs have
// come to it.
func (g *gpu) time(ctx context.Context, f func() error) (time.Duration, error) {
	if err := collectives.BarrierDevice(g.c, g.stream.Handle()); err != nil {
		return 0, err
	}
	if err := g.start.Record(g.stream); err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	if err := g.end.Record(g.stream); err != nil {
		return 0, err
	}
	if err := g.wait(ctx); err != nil {
		return 0, err
	}
	return g.end.Since(g.start)
}

// wait waits for the mark at the end, or for a reason to give up.
func (g *gpu) wait(ctx context.Context) error {
	begin := time.Now()
	for {
		done, err := g.end.Done()
		if err != nil {
			return err
		}
		if err := errors.Join(ctx.Err(), g.c.AsyncErr()); err != nil {
			return err
		}
		if done {
			return nil
		}
		switch waited := time.Since(begin); {
		case waited > g.timeout:
			return fmt.Errorf("the GPU of rank %d has not ended its work after %v", g.c.Rank(), g.timeout)
		case waited > time.Millisecond:
			time.Sleep(20 * time.Microsecond)
		default:
			runtime.Gosched()
		}
	}
}

// A gpuPool is a rank's memory on its GPU. A pool that has one mirrors it on the host, where
// inputs are made and results checked.
type gpuPool struct {
	g        *gpu
	src, dst cuda.Ptr
}

// gpuMemory is a pool on GPUs of so many bytes each for sources and destinations: symmetric
// memory, known to NCCL too if windows is set, or plain memory, of which nobody knows.
func gpuMemory(ctx context.Context, g *gpu, bytes int64, memory string, windows bool) (pool, error) {
	p := heapPool(bytes)
	p.gpu = &gpuPool{g: g}
	var frees []func() error
	for _, at := range []*cuda.Ptr{&p.gpu.src, &p.gpu.dst} {
		var free func() error
		var err error
		switch {
		case windows:
			*at, free, err = g.window(ctx, int(bytes))
		case memory == "symmetric":
			var b *comm.DeviceBuffer
			if b, err = comm.AllocDevice(ctx, g.c, int(bytes)); err == nil {
				*at, free = cuda.Ptr(b.Ptr()), b.Free
			}
		default:
			ptr, e := g.context.Alloc(int(bytes))
			*at, err, free = ptr, e, func() error { return g.context.Free(ptr) }
		}
		if err != nil {
			return pool{}, fmt.Errorf("%d bytes on the GPU: %w", bytes, err)
		}
		frees = append(frees, free)
	}
	p.free = func() error { return errors.Join(frees[0](), frees[1]()) }
	return p, nil
}

// window allocates memory by NCCL, of which it makes a symmetric window, and which we register.
func (g *gpu) window(ctx context.Context, bytes int) (at cuda.Ptr, free func() error, err error) {
	var w nccl.Window
	err = g.nccl.Do(func() error {
		if at, err = g.nccl.Alloc(bytes); err == nil {
			w, err = g.nccl.Register(at, bytes)
		}
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	b, err := comm.Register(ctx, g.c, uintptr(at), bytes)
	if err != nil {
		return 0, nil, err
	}
	return at, func() error {
		err := b.Free()
		return errors.Join(err, g.nccl.Do(func() error { return errors.Join(g.nccl.Deregister(w), g.nccl.Free(at)) }))
	}, nil
}

// fill writes a rank's inputs into all sources.
func (p *pool) fill(mk maker, rank int) error {
	mk.fill(p.src, rank, 0)
	if p.gpu == nil {
		return nil
	}
	return p.gpu.copyTo(p.gpu.src, p.src)
}

// copyTo copies from the host, and returns when it is done.
func (m *gpuPool) copyTo(at cuda.Ptr, b []byte) error {
	if err := m.g.context.CopyHtoD(at, b); err != nil {
		return err
	}
	return m.g.context.Stream(0).Synchronize() // a copy may end after the call
}

// push copies a call's slot from the mirror to the GPU, and pull the result back.
func (p *pass) push(call int64) error {
	m := p.pool.gpu
	if m == nil || p.coll.kind == barrier {
		return nil
	}
	src, dst := p.slot(call)
	srcAt, dstAt := p.addresses(call)
	return errors.Join(m.copyTo(dstAt, dst), m.copyTo(srcAt, src))
}

func (p *pass) pull(call int64) error {
	m := p.pool.gpu
	if m == nil || p.coll.kind == barrier {
		return nil
	}
	_, dst := p.slot(call)
	_, dstAt := p.addresses(call)
	return m.g.context.CopyDtoH(dst, dstAt)
}

// addresses are a call's source and destination on the GPU.
func (p *pass) addresses(call int64) (src, dst cuda.Ptr) {
	m := p.pool.gpu
	srcAt, dstAt := p.offsets(call)
	src = m.src
	if p.inPlace {
		src = m.dst
	}
	return src + cuda.Ptr(srcAt), m.dst + cuda.Ptr(dstAt)
}

// restore makes what is in the destinations what is in the sources: in-place calls begin
// there.
func (p *pass) restore() error {
	m := p.pool.gpu
	if m == nil {
		copy(p.pool.dst, p.pool.src)
		return nil
	}
	return errors.Join(m.g.context.CopyDtoD(m.dst, m.src, len(p.pool.src)), m.g.context.Stream(0).Synchronize())
}

// region is regionBytes for a GPU, which has a cache of its own.
func (g *gpu) region(largest int64, warm bool) (int64, error) {
	cache, err := g.context.Device().Attribute(cuda.L2Bytes)
	return regionBytes(largest, 1, int64(cache), warm), err
}

// describe tells this rank's GPU, the versions of the driver and of its CUDA, and the GPUs of all
// ranks.
func (g *gpu) describe(ctx context.Context) (model, driver string, all []string, err error) {
	if model, err = g.context.Device().Name(); err != nil {
		return "", "", nil, err
	}
	d, err := g.c.OpenDevice(ctx) // which it is already
	if err != nil {
		return "", "", nil, err
	}
	for r := range g.c.Size() {
		all = append(all, d.Name(r))
	}
	version := g.context.Driver().Version()
	driver = fmt.Sprintf("CUDA %d.%d", version/1000, version%1000/10)
	if b, err := os.ReadFile("/sys/module/nvidia/version"); err == nil {
		driver = strings.TrimSpace(string(b)) + ", " + driver
	}
	return model, driver, all, nil
}
