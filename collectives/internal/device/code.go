package device

import (
	"errors"
	"sync"
	"unsafe"

	"github.com/weft-go/weft/internal/cuda"
	layout "github.com/weft-go/weft/kernels/cuda"
)

// code is the kernels as loaded for a device. All groups of this process on the device
// share it.
//
// A first launch of a kernel, or of one that needs more memory of its own than those before,
// may wait until the device is idle. It never is while a kernel waits for that of another
// rank of this process. So all are loaded and launched once before any group has them.
type code struct {
	context   *cuda.Context
	module    *cuda.Module
	functions map[string]cuda.Function
	early     bool // the kernels may be launched before the one in front of them has ended
	users     int
}

var loaded = struct {
	mu    sync.Mutex
	codes map[uintptr]*code // by the handle of the context
}{codes: map[uintptr]*code{}}

// loadCode returns the kernels for a context, to be given back with release.
func loadCode(c *cuda.Context) (*code, error) {
	loaded.mu.Lock()
	defer loaded.mu.Unlock()
	if k, ok := loaded.codes[c.Handle()]; ok {
		k.users++
		return k, nil
	}
	major, minor, err := c.Device().ComputeCapability()
	if err != nil {
		return nil, err
	}
	image, early, err := layout.Image(major, minor, c.Device().Driver().Version())
	if err != nil {
		return nil, err
	}
	k := &code{context: c, functions: map[string]cuda.Function{}, early: early, users: 1}
	if k.module, err = c.LoadModule(image); err != nil {
		return nil, err
	}
	if err := k.warm(); err != nil {
		return nil, errors.Join(err, k.module.Unload())
	}
	loaded.codes[c.Handle()] = k
	return k, nil
}

func (k *code) release() error {
	loaded.mu.Lock()
	defer loaded.mu.Unlock()
	if k.users--; k.users > 0 {
		return nil
	}
	delete(loaded.codes, k.context.Handle())
	return k.module.Unload()
}

// warm launches each kernel for a segment that says that it has failed, so that the kernel
// ends.
func (k *code) warm() (err error) {
	s, err := k.context.NewStream(0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Destroy()) }()
	const bytes = layout.SegmentHeader + 4096 // with the beginning of a lane
	segment, err := k.context.Alloc(bytes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.context.Free(segment)) }()
	if err := s.Fill8(segment, 1, bytes); err != nil {
		return err
	}
	args := &layout.Args{Segment: [layout.MaxRanks]uint64{uint64(segment)}, Ranks: 1}
	for _, name := range layout.Names() {
		f, err := k.module.Function(name)
		if err != nil {
			return err
		}
		k.functions[name] = f
		l := newLaunch(f, name, args, &layout.Blocks{})
		if err := l.Enqueue(s); err != nil {
			return err
		}
	}
	return s.Synchronize()
}

// newLaunch is a launch of a kernel with arguments that may change between launches.
func newLaunch(f cuda.Function, name string, args *layout.Args, blocks *layout.Blocks) *cuda.Launch {
	params := []unsafe.Pointer{unsafe.Pointer(args)}
	if layout.HasBlocks(name) {
		params = append(params, unsafe.Pointer(blocks))
	}
	l := f.NewLaunch(params...)
	l.SetBlock(layout.Threads, 1, 1)
	return l
}
