// The kernels, and the layout for a test in Go.
#include "large.cuh"
#include "mail.cuh"
#include "small.cuh"

#define KERNEL extern "C" __global__ void __launch_bounds__(threads, 2)

#define REDUCTIONS(name, T) \
	KERNEL weft_small_##name(const __grid_constant__ Args a) { smallReduce<T>(a); } \
	KERNEL weft_large_##name(const __grid_constant__ Args a) { largeReduce<T>(a); }

REDUCTIONS(float32, Float32)
REDUCTIONS(float64, Float64)
REDUCTIONS(float16, Float16)
REDUCTIONS(bfloat16, BFloat16)
REDUCTIONS(int32, Int32)
REDUCTIONS(int64, Int64)
REDUCTIONS(uint8, Uint8)
REDUCTIONS(float8e4m3, Float8E4M3)
REDUCTIONS(float8e5m2, Float8E5M2)

KERNEL weft_small_move(const __grid_constant__ Args a) { smallMove(a); }
KERNEL weft_large_move(const __grid_constant__ Args a, const __grid_constant__ Blocks m) { largeMove(a, m); }
KERNEL weft_mail(const __grid_constant__ Args a, const __grid_constant__ Blocks m) { mail(a, m); }

#define AT(T, field) (u32) __INTADDR__(&((T *)0)->field)
extern "C" __device__ const u32 weft_layout[] = {
	sizeof(Args), AT(Args, segment), AT(Args, page), AT(Args, dst), AT(Args, src), AT(Args, dstOffset), AT(Args, srcOffset),
	AT(Args, count), AT(Args, timeoutNs), AT(Args, seq), AT(Args, dstBuffer), AT(Args, srcBuffer), AT(Args, rank), AT(Args, ranks),
	AT(Args, lanes), AT(Args, collective), AT(Args, op), AT(Args, root), AT(Args, hash), AT(Args, flags), AT(Args, to), AT(Args, from),
	sizeof(Blocks), AT(Blocks, sendAt), AT(Blocks, sendBytes), AT(Blocks, recvAt), AT(Blocks, recvBytes),
	sizeof(Page), AT(Page, abort), AT(Page, record),
	sizeof(Record), AT(Record, written), AT(Record, reason), AT(Record, rank), AT(Record, peer), AT(Record, collective), AT(Record, seq),
	AT(Record, epoch), AT(Record, step), AT(Record, lane), AT(Record, awaited), AT(Record, want), AT(Record, seen),
	sizeof(Segment), AT(Segment, poison), AT(Segment, failed), AT(Segment, buffers), sizeof(Lane), sizeof(Arrived), sizeof(Mail), sizeof(Packet),
	maxRanks, maxBuffers, threads, smallBytes, stageBytes, helloWords, mailLanes, mailSlots, mailSlotBytes,
	allReduce, reduce, broadcast, allGather, allToAll, barrier, reduceScatterBlock, opSum, opProd, opMin, opMax, opAvg,
};
