package collectives

import (
	"context"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// forms are the ways to make one call with given arguments.
type forms struct {
	block func(ctx context.Context) error
	start func(ctx context.Context) *Request
	setUp func() (*Persistent, error)
	add   func(g *GroupCalls)
}

func barrierForms(c *comm.Communicator) forms {
	return forms{
		func(ctx context.Context) error { return Barrier(ctx, c) },
		func(ctx context.Context) *Request { return StartBarrier(ctx, c) },
		func() (*Persistent, error) { return NewBarrier(c) },
		func(g *GroupCalls) { AddBarrier(g) },
	}
}

func broadcastForms[T any](c *comm.Communicator, buf []T, root int) forms {
	return forms{
		func(ctx context.Context) error { return Broadcast(ctx, c, buf, root) },
		func(ctx context.Context) *Request { return StartBroadcast(ctx, c, buf, root) },
		func() (*Persistent, error) { return NewBroadcast(c, buf, root) },
		func(g *GroupCalls) { AddBroadcast(g, buf, root) },
	}
}

func allGatherForms[T any](c *comm.Communicator, dst, src []T) forms {
	return forms{
		func(ctx context.Context) error { return AllGather(ctx, c, dst, src) },
		func(ctx context.Context) *Request { return StartAllGather(ctx, c, dst, src) },
		func() (*Persistent, error) { return NewAllGather(c, dst, src) },
		func(g *GroupCalls) { AddAllGather(g, dst, src) },
	}
}

func allGatherVForms[T any](c *comm.Communicator, dst []T, counts []int, src []T) forms {
	return forms{
		func(ctx context.Context) error { return AllGatherV(ctx, c, dst, counts, src) },
		func(ctx context.Context) *Request { return StartAllGatherV(ctx, c, dst, counts, src) },
		func() (*Persistent, error) { return NewAllGatherV(c, dst, counts, src) },
		func(g *GroupCalls) { AddAllGatherV(g, dst, counts, src) },
	}
}

func allToAllForms[T any](c *comm.Communicator, dst, src []T) forms {
	return forms{
		func(ctx context.Context) error { return AllToAll(ctx, c, dst, src) },
		func(ctx context.Context) *Request { return StartAllToAll(ctx, c, dst, src) },
		func() (*Persistent, error) { return NewAllToAll(c, dst, src) },
		func(g *GroupCalls) { AddAllToAll(g, dst, src) },
	}
}

func allToAllVForms[T any](c *comm.Communicator, dst []T, dstCounts []int, src []T, srcCounts []int) forms {
	return forms{
		func(ctx context.Context) error { return AllToAllV(ctx, c, dst, dstCounts, src, srcCounts) },
		func(ctx context.Context) *Request { return StartAllToAllV(ctx, c, dst, dstCounts, src, srcCounts) },
		func() (*Persistent, error) { return NewAllToAllV(c, dst, dstCounts, src, srcCounts) },
		func(g *GroupCalls) { AddAllToAllV(g, dst, dstCounts, src, srcCounts) },
	}
}

func gatherForms[T any](c *comm.Communicator, dst, src []T, root int) forms {
	return forms{
		func(ctx context.Context) error { return Gather(ctx, c, dst, src, root) },
		func(ctx context.Context) *Request { return StartGather(ctx, c, dst, src, root) },
		func() (*Persistent, error) { return NewGather(c, dst, src, root) },
		func(g *GroupCalls) { AddGather(g, dst, src, root) },
	}
}

func gatherVForms[T any](c *comm.Communicator, dst []T, counts []int, src []T, root int) forms {
	return forms{
		func(ctx context.Context) error { return GatherV(ctx, c, dst, counts, src, root) },
		func(ctx context.Context) *Request { return StartGatherV(ctx, c, dst, counts, src, root) },
		func() (*Persistent, error) { return NewGatherV(c, dst, counts, src, root) },
		func(g *GroupCalls) { AddGatherV(g, dst, counts, src, root) },
	}
}

func scatterForms[T any](c *comm.Communicator, dst, src []T, root int) forms {
	return forms{
		func(ctx context.Context) error { return Scatter(ctx, c, dst, src, root) },
		func(ctx context.Context) *Request { return StartScatter(ctx, c, dst, src, root) },
		func() (*Persistent, error) { return NewScatter(c, dst, src, root) },
		func(g *GroupCalls) { AddScatter(g, dst, src, root) },
	}
}

func scatterVForms[T any](c *comm.Communicator, dst, src []T, counts []int, root int) forms {
	return forms{
		func(ctx context.Context) error { return ScatterV(ctx, c, dst, src, counts, root) },
		func(ctx context.Context) *Request { return StartScatterV(ctx, c, dst, src, counts, root) },
		func() (*Persistent, error) { return NewScatterV(c, dst, src, counts, root) },
		func(g *GroupCalls) { AddScatterV(g, dst, src, counts, root) },
	}
}

func allReduceForms[T kernels.Number](c *comm.Communicator, dst, src []T, op kernels.Op) forms {
	return forms{
		func(ctx context.Context) error { return AllReduce(ctx, c, dst, src, op) },
		func(ctx context.Context) *Request { return StartAllReduce(ctx, c, dst, src, op) },
		func() (*Persistent, error) { return NewAllReduce(c, dst, src, op) },
		func(g *GroupCalls) { AddAllReduce(g, dst, src, op) },
	}
}

func reduceForms[T kernels.Number](c *comm.Communicator, dst, src []T, op kernels.Op, root int) forms {
	return forms{
		func(ctx context.Context) error { return Reduce(ctx, c, dst, src, op, root) },
		func(ctx context.Context) *Request { return StartReduce(ctx, c, dst, src, op, root) },
		func() (*Persistent, error) { return NewReduce(c, dst, src, op, root) },
		func(g *GroupCalls) { AddReduce(g, dst, src, op, root) },
	}
}

func reduceScatterForms[T kernels.Number](c *comm.Communicator, dst, src []T, counts []int, op kernels.Op) forms {
	return forms{
		func(ctx context.Context) error { return ReduceScatter(ctx, c, dst, src, counts, op) },
		func(ctx context.Context) *Request { return StartReduceScatter(ctx, c, dst, src, counts, op) },
		func() (*Persistent, error) { return NewReduceScatter(c, dst, src, counts, op) },
		func(g *GroupCalls) { AddReduceScatter(g, dst, src, counts, op) },
	}
}

func reduceScatterBlockForms[T kernels.Number](c *comm.Communicator, dst, src []T, op kernels.Op) forms {
	return forms{
		func(ctx context.Context) error { return ReduceScatterBlock(ctx, c, dst, src, op) },
		func(ctx context.Context) *Request { return StartReduceScatterBlock(ctx, c, dst, src, op) },
		func() (*Persistent, error) { return NewReduceScatterBlock(c, dst, src, op) },
		func(g *GroupCalls) { AddReduceScatterBlock(g, dst, src, op) },
	}
}

func scanForms[T kernels.Number](c *comm.Communicator, dst, src []T, op kernels.Op) forms {
	return forms{
		func(ctx context.Context) error { return Scan(ctx, c, dst, src, op) },
		func(ctx context.Context) *Request { return StartScan(ctx, c, dst, src, op) },
		func() (*Persistent, error) { return NewScan(c, dst, src, op) },
		func(g *GroupCalls) { AddScan(g, dst, src, op) },
	}
}

func exscanForms[T kernels.Number](c *comm.Communicator, dst, src []T, op kernels.Op) forms {
	return forms{
		func(ctx context.Context) error { return Exscan(ctx, c, dst, src, op) },
		func(ctx context.Context) *Request { return StartExscan(ctx, c, dst, src, op) },
		func() (*Persistent, error) { return NewExscan(c, dst, src, op) },
		func(g *GroupCalls) { AddExscan(g, dst, src, op) },
	}
}

func allReduceFuncForms[T any](c *comm.Communicator, dst, src []T, f func(acc, x []T)) forms {
	return forms{
		func(ctx context.Context) error { return AllReduceFunc(ctx, c, dst, src, f) },
		func(ctx context.Context) *Request { return StartAllReduceFunc(ctx, c, dst, src, f) },
		func() (*Persistent, error) { return NewAllReduceFunc(c, dst, src, f) },
		func(g *GroupCalls) { AddAllReduceFunc(g, dst, src, f) },
	}
}

func reduceFuncForms[T any](c *comm.Communicator, dst, src []T, f func(acc, x []T), root int) forms {
	return forms{
		func(ctx context.Context) error { return ReduceFunc(ctx, c, dst, src, f, root) },
		func(ctx context.Context) *Request { return StartReduceFunc(ctx, c, dst, src, f, root) },
		func() (*Persistent, error) { return NewReduceFunc(c, dst, src, f, root) },
		func(g *GroupCalls) { AddReduceFunc(g, dst, src, f, root) },
	}
}

func reduceScatterFuncForms[T any](c *comm.Communicator, dst, src []T, counts []int, f func(acc, x []T)) forms {
	return forms{
		func(ctx context.Context) error { return ReduceScatterFunc(ctx, c, dst, src, counts, f) },
		func(ctx context.Context) *Request { return StartReduceScatterFunc(ctx, c, dst, src, counts, f) },
		func() (*Persistent, error) { return NewReduceScatterFunc(c, dst, src, counts, f) },
		func(g *GroupCalls) { AddReduceScatterFunc(g, dst, src, counts, f) },
	}
}

func reduceScatterBlockFuncForms[T any](c *comm.Communicator, dst, src []T, f func(acc, x []T)) forms {
	return forms{
		func(ctx context.Context) error { return ReduceScatterBlockFunc(ctx, c, dst, src, f) },
		func(ctx context.Context) *Request { return StartReduceScatterBlockFunc(ctx, c, dst, src, f) },
		func() (*Persistent, error) { return NewReduceScatterBlockFunc(c, dst, src, f) },
		func(g *GroupCalls) { AddReduceScatterBlockFunc(g, dst, src, f) },
	}
}

func scanFuncForms[T any](c *comm.Communicator, dst, src []T, f func(acc, x []T)) forms {
	return forms{
		func(ctx context.Context) error { return ScanFunc(ctx, c, dst, src, f) },
		func(ctx context.Context) *Request { return StartScanFunc(ctx, c, dst, src, f) },
		func() (*Persistent, error) { return NewScanFunc(c, dst, src, f) },
		func(g *GroupCalls) { AddScanFunc(g, dst, src, f) },
	}
}

func exscanFuncForms[T any](c *comm.Communicator, dst, src []T, f func(acc, x []T)) forms {
	return forms{
		func(ctx context.Context) error { return ExscanFunc(ctx, c, dst, src, f) },
		func(ctx context.Context) *Request { return StartExscanFunc(ctx, c, dst, src, f) },
		func() (*Persistent, error) { return NewExscanFunc(c, dst, src, f) },
		func(g *GroupCalls) { AddExscanFunc(g, dst, src, f) },
	}
}
