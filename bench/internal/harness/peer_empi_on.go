//go:build mpi

package harness

import (
	"context"
	"time"

	"github.com/emer/empi/mpi"

	"github.com/weft-go/weft/kernels"
)

// newEmpi returns what makes contenders that go through emer/empi, as Go
// programs do. It has no AllToAll, ReduceScatter or Scan, no half types, and in
// place only AllReduce.
func newEmpi() (func(p *pass) contender, error) {
	mpi.LogErrors = false // they are returned
	world, err := mpi.NewComm(nil)
	if err != nil {
		return nil, err
	}
	return func(p *pass) contender {
		switch p.typ {
		case kernels.TypeInt8:
			return newEmpiTyped(p, world, world.AllReduceI8, world.ReduceI8, world.BcastI8, world.AllGatherI8, world.GatherI8, world.ScatterI8)
		case kernels.TypeUint8:
			return newEmpiTyped(p, world, world.AllReduceU8, world.ReduceU8, world.BcastU8, world.AllGatherU8, world.GatherU8, world.ScatterU8)
		case kernels.TypeInt16:
			return newEmpiTyped(p, world, world.AllReduceI16, world.ReduceI16, world.BcastI16, world.AllGatherI16, world.GatherI16, world.ScatterI16)
		case kernels.TypeUint16:
			return newEmpiTyped(p, world, world.AllReduceU16, world.ReduceU16, world.BcastU16, world.AllGatherU16, world.GatherU16, world.ScatterU16)
		case kernels.TypeInt32:
			return newEmpiTyped(p, world, world.AllReduceI32, world.ReduceI32, world.BcastI32, world.AllGatherI32, world.GatherI32, world.ScatterI32)
		case kernels.TypeUint32:
			return newEmpiTyped(p, world, world.AllReduceU32, world.ReduceU32, world.BcastU32, world.AllGatherU32, world.GatherU32, world.ScatterU32)
		case kernels.TypeInt64:
			return newEmpiTyped(p, world, world.AllReduceI64, world.ReduceI64, world.BcastI64, world.AllGatherI64, world.GatherI64, world.ScatterI64)
		case kernels.TypeUint64:
			return newEmpiTyped(p, world, world.AllReduceU64, world.ReduceU64, world.BcastU64, world.AllGatherU64, world.GatherU64, world.ScatterU64)
		case kernels.TypeFloat32:
			return newEmpiTyped(p, world, world.AllReduceF32, world.ReduceF32, world.BcastF32, world.AllGatherF32, world.GatherF32, world.ScatterF32)
		case kernels.TypeFloat64:
			return newEmpiTyped(p, world, world.AllReduceF64, world.ReduceF64, world.BcastF64, world.AllGatherF64, world.GatherF64, world.ScatterF64)
		}
		return nil
	}, nil
}

type empi[T kernels.Number] struct {
	p         *pass
	op        mpi.Op
	world     *mpi.Comm
	allReduce func(op mpi.Op, dst, src []T) error
	reduce    func(to int, op mpi.Op, dst, src []T) error
	bcast     func(from int, buf []T) error
	allGather func(dst, src []T) error
	gather    func(to int, dst, src []T) error
	scatter   func(from int, dst, src []T) error
	src, dst  []T
}

func newEmpiTyped[T kernels.Number](p *pass, world *mpi.Comm, allReduce func(mpi.Op, []T, []T) error,
	reduce func(int, mpi.Op, []T, []T) error, bcast func(int, []T) error, allGather func([]T, []T) error,
	gather, scatter func(int, []T, []T) error) contender {
	op, ok := map[kernels.Op]mpi.Op{
		kernels.Sum: mpi.OpSum, kernels.Prod: mpi.OpProd, kernels.Min: mpi.OpMin, kernels.Max: mpi.OpMax,
	}[p.op]
	switch p.coll.kind {
	case allToAll, reduceScatter, scan:
		return nil
	case reduceKind, allGatherKind, gatherKind, scatterKind:
		if p.inPlace {
			return nil
		}
	}
	if p.coll.reduces && !ok {
		return nil
	}
	return &empi[T]{p, op, world, allReduce, reduce, bcast, allGather, gather, scatter,
		kernels.Slice[T](p.pool.src), kernels.Slice[T](p.pool.dst)}
}

// The kinds whose names parameters hide.
const (
	reduceKind    = reduce
	allGatherKind = allGather
	gatherKind    = gather
	scatterKind   = scatter
)

func (e *empi[T]) run(_ context.Context, first int64, calls int) (time.Duration, error) {
	p := e.p
	var err error
	begin := time.Now()
	for i := int64(0); i < int64(calls) && err == nil; i++ {
		slot, root := (first+i)%p.slots, p.rootOf(first+i)
		dst := e.dst[slot*p.dstStride:][:p.dst]
		var src []T
		if !p.inPlace {
			src = e.src[slot*p.srcStride:][:p.src]
		}
		switch p.coll.kind {
		case allReduce:
			err = e.allReduce(e.op, dst, src)
		case reduce:
			err = e.reduce(root, e.op, dst, src)
		case broadcast:
			err = e.bcast(root, dst)
		case allGather:
			err = e.allGather(dst, src)
		case gather:
			err = e.gather(root, dst, src)
		case scatter:
			err = e.scatter(root, dst, src)
		case barrier:
			err = e.world.Barrier()
		}
	}
	return time.Since(begin), err
}
