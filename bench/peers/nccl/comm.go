package nccl

import (
	"errors"
	"unsafe"

	"github.com/weft-go/weft/internal/cuda"
	"github.com/weft-go/weft/kernels"
)

// UniqueID is what the ranks of a communicator have in common: one of them makes it.
type UniqueID [128]byte

// UniqueID makes one.
func (l *Library) UniqueID() (UniqueID, error) {
	id := new(UniqueID)
	err := l.call(fnGetUniqueID, uintptr(unsafe.Pointer(id)))
	return *id, err
}

// Comm is a communicator of NCCL, on one rank.
type Comm struct {
	library *Library
	context *cuda.Context
	handle  uintptr
	ranks   int
}

// Init makes a communicator of as many ranks, whose device is the context's. It blocks until
// all ranks have called it.
func (l *Library) Init(context *cuda.Context, ranks, rank int, id UniqueID) (*Comm, error) {
	c := &Comm{library: l, context: context, ranks: ranks}
	err := context.Do(func() error { return l.initRank(&c.handle, ranks, &id, rank) })
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Do calls f with the communicator's device current.
func (c *Comm) Do(f func() error) error { return c.context.Do(f) }

// Destroy gives the communicator up, when its work is done. All ranks call it.
func (c *Comm) Destroy() error { return c.library.call(fnCommDestroy, c.handle) }

// Abort ends the communicator's work, and gives it up.
func (c *Comm) Abort() error { return c.library.call(fnCommAbort, c.handle) }

// Alloc allocates memory of the device that can be a [Window].
func (c *Comm) Alloc(bytes int) (cuda.Ptr, error) {
	p := new(cuda.Ptr)
	err := c.library.call(fnMemAlloc, uintptr(unsafe.Pointer(p)), uintptr(bytes))
	return *p, err
}

// Free frees what Alloc has allocated.
func (c *Comm) Free(p cuda.Ptr) error { return c.library.call(fnMemFree, uintptr(p)) }

// Window is memory that NCCL knows on all ranks.
type Window uintptr

const winCollSymmetric = 1

// Register makes a symmetric window of each rank's memory. All ranks call it, with the same size.
func (c *Comm) Register(p cuda.Ptr, bytes int) (Window, error) {
	w := new(Window)
	err := c.library.call(fnCommWindowRegister, c.handle, uintptr(p), uintptr(bytes), uintptr(unsafe.Pointer(w)), winCollSymmetric)
	if err == nil && *w == 0 {
		err = errors.New("ncclCommWindowRegister: NCCL has no symmetric memory on these devices, and gave no window")
	}
	return *w, err
}

// Deregister gives a window up.
func (c *Comm) Deregister(w Window) error {
	return c.library.call(fnCommWindowDeregister, c.handle, uintptr(w))
}

// types are the ncclDataType_t of types of elements, and operators the ncclRedOp_t. NCCL's
// averages are left out: they round otherwise than a sum that is divided.
var (
	types = map[kernels.Type]uintptr{
		kernels.TypeInt8: 0, kernels.TypeUint8: 1, kernels.TypeInt32: 2, kernels.TypeUint32: 3, kernels.TypeInt64: 4,
		kernels.TypeUint64: 5, kernels.TypeFloat16: 6, kernels.TypeFloat32: 7, kernels.TypeFloat64: 8, kernels.TypeBFloat16: 9,
	}
	operators = map[kernels.Op]uintptr{kernels.Sum: 0, kernels.Prod: 1, kernels.Max: 2, kernels.Min: 3}
)

// Moves tells whether NCCL has a type of elements.
func Moves(t kernels.Type) bool { _, ok := types[t]; return ok }

// Reduces tells whether NCCL has a type and an operator.
func Reduces(t kernels.Type, op kernels.Op) bool { _, ok := operators[op]; return ok && Moves(t) }

// The collectives are enqueued on a stream. The type and the operator are of those that NCCL
// has; dst and src are of the length, or in the place, that weft's of the same name want.

// AllReduce reduces count elements.
func (c *Comm) AllReduce(dst, src cuda.Ptr, count int, t kernels.Type, op kernels.Op, s cuda.Stream) error {
	return c.library.call(fnAllReduce, uintptr(src), uintptr(dst), uintptr(count), types[t], operators[op], c.handle, s.Handle())
}

// Reduce reduces count elements to root.
func (c *Comm) Reduce(dst, src cuda.Ptr, count int, t kernels.Type, op kernels.Op, root int, s cuda.Stream) error {
	return c.library.call(fnReduce, uintptr(src), uintptr(dst), uintptr(count), types[t], operators[op], uintptr(root), c.handle, s.Handle())
}

// Broadcast copies count elements from root.
func (c *Comm) Broadcast(buf cuda.Ptr, count int, t kernels.Type, root int, s cuda.Stream) error {
	return c.library.call(fnBroadcast, uintptr(buf), uintptr(buf), uintptr(count), types[t], uintptr(root), c.handle, s.Handle())
}

// ReduceScatter reduces a block of count elements for each rank.
func (c *Comm) ReduceScatter(dst, src cuda.Ptr, count int, t kernels.Type, op kernels.Op, s cuda.Stream) error {
	return c.library.call(fnReduceScatter, uintptr(src), uintptr(dst), uintptr(count), types[t], operators[op], c.handle, s.Handle())
}

// AllGather puts each rank's count elements together.
func (c *Comm) AllGather(dst, src cuda.Ptr, count int, t kernels.Type, s cuda.Stream) error {
	return c.library.call(fnAllGather, uintptr(src), uintptr(dst), uintptr(count), types[t], c.handle, s.Handle())
}

// AllToAll exchanges blocks of count elements, which NCCL cannot in place: by ncclAlltoAll where
// there is one, else by a group of messages.
func (c *Comm) AllToAll(dst, src cuda.Ptr, count int, t kernels.Type, s cuda.Stream) error {
	if c.library.address[fnAlltoAll] != 0 {
		return c.library.call(fnAlltoAll, uintptr(src), uintptr(dst), uintptr(count), types[t], c.handle, s.Handle())
	}
	err := c.library.call(fnGroupStart)
	if err != nil {
		return err
	}
	block := cuda.Ptr(count * t.Size())
	for r := range c.ranks {
		at := cuda.Ptr(r) * block
		err = errors.Join(err,
			c.library.call(fnSend, uintptr(src+at), uintptr(count), types[t], uintptr(r), c.handle, s.Handle()),
			c.library.call(fnRecv, uintptr(dst+at), uintptr(count), types[t], uintptr(r), c.handle, s.Handle()))
	}
	return errors.Join(err, c.library.call(fnGroupEnd))
}
