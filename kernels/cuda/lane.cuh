// What the kernels of collectives have in common. Block b of every rank works with
// block b of the others and with no other block of its own rank: they are a lane, with
// numbers of calls and steps of their own, which live in the segments, so that a kernel
// can be launched again as it is (by a graph).
#pragma once
#include "op.cuh"

// Where things are in a segment.
__device__ __forceinline__ u64 laneBytes(u32 ranks) {
	return sizeof(Lane) + ranks * (sizeof(Arrived) + 2ull * helloWords * sizeof(Packet)) + 2ull * stageBytes;
}
__device__ __forceinline__ Lane *laneOf(const Args &a, u32 rank, u32 lane) {
	return reinterpret_cast<Lane *>(a.segment[rank] + sizeof(Segment) + lane * laneBytes(a.ranks));
}
__device__ __forceinline__ Arrived *arrivedOf(const Args &a, u32 rank, u32 lane, u32 from) {
	return reinterpret_cast<Arrived *>(laneOf(a, rank, lane) + 1) + from;
}
__device__ __forceinline__ Packet *helloOf(const Args &a, u32 rank, u32 lane, u64 epoch, u32 from) {
	return reinterpret_cast<Packet *>(arrivedOf(a, rank, lane, a.ranks)) + ((epoch & 1) * a.ranks + from) * helloWords;
}
__device__ __forceinline__ u64 stageOf(const Args &a, u32 rank, u32 lane, u32 which) {
	return reinterpret_cast<u64>(helloOf(a, rank, lane, 1, a.ranks)) + which * stageBytes;
}
__device__ __forceinline__ Mail *mailOf(const Args &a, u32 rank, u32 peer, u32 lane) {
	return reinterpret_cast<Mail *>(a.segment[rank] + sizeof(Segment) + a.lanes * laneBytes(a.ranks) +
	                                (peer * mailLanes + lane) * (sizeof(Mail) + mailSlots * mailSlotBytes));
}
__device__ __forceinline__ Packet *smallOf(const Args &a, u32 rank, u32 lane, u64 epoch, u32 from) {
	return reinterpret_cast<Packet *>(mailOf(a, rank, a.ranks, 0)) + ((2 * lane + (epoch & 1)) * a.ranks + from) * threads;
}

// What the ranks of a lane tell each other as a call begins. The last three are for one peer:
// how much it is sent, where in the buffer of results it is to put its own, and how much that is.
enum Hello : u32 { helloBuffers, helloDst, helloSrc, helloFlags, helloLongest, helloBytes, helloTo, helloWant, helloUsed };

// Block is what the threads of a block share.
struct Block {
	u64 calls, steps;
	u32 failed;
	u64 hello[maxRanks][helloWords];
	u64 src[maxRanks], dst[maxRanks];
	u64 srcBase[maxRanks], dstBase[maxRanks]; // where this rank maps the buffers of each
};

// afterLast waits for the kernel before in the stream, where this one was launched early:
// only then is there what that left in memory.
__device__ __forceinline__ void afterLast() {
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// beforeNext lets the next kernel in the stream be launched, if it asks to be early: this
// one waits for nothing any more, so that it does not take the place of what is waited for.
__device__ __forceinline__ void beforeNext() {
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// openKernel begins a kernel. False: the communicator has failed.
__device__ __forceinline__ bool openKernel(const Args &a, Block &b) {
	afterLast();
	if (threadIdx.x == 0) b.failed = peek(&own(a)->failed) != 0;
	__syncthreads();
	return b.failed == 0;
}

// openLane is openKernel, and fetches the numbers of the lane.
__device__ __forceinline__ bool openLane(const Args &a, Block &b, Watch &w) {
	afterLast();
	Lane *l = laneOf(a, a.rank, w.lane);
	if (threadIdx.x == 0) b.calls = l->calls, b.steps = l->steps, b.failed = peek(&own(a)->failed) != 0;
	__syncthreads();
	w.epoch = b.calls, w.step = b.steps;
	return b.failed == 0;
}

// closeLane ends a call of which no thread of the block waits for anything any more.
__device__ __forceinline__ void closeLane(const Args &a, Watch &w) {
	Lane *l = laneOf(a, a.rank, w.lane);
	beforeNext();
	if (threadIdx.x == 0) l->calls = w.epoch + 1, l->steps = w.step;
}

// step ends a step: all that this block and the same block of the other ranks did
// before is done and visible. False: it failed.
__device__ __forceinline__ bool step(const Args &a, Watch &w) {
	__syncthreads();
	u32 p = threadIdx.x;
	bool ok = true;
	w.step++;
	if (p < a.ranks && p != a.rank) {
		signal(&arrivedOf(a, p, w.lane, a.rank)->step, w.step);
		ok = wait(w, awaitStep, p, &arrivedOf(a, a.rank, w.lane, p)->step, w.step);
	}
	return __syncthreads_and(ok);
}

// baseOf is where this rank maps a buffer of rank p, by its number.
__device__ __forceinline__ u64 baseOf(const Args &a, u32 p, u32 buffer) { return buffer == 0 ? 0 : own(a)->buffers[p][buffer - 1]; }

// hello exchanges the first words of b.hello[me] with all ranks; those from
// helloBytes on are what each peer is told for itself, in b.hello[peer], and are then
// what it told. It is a step, too, and the place where calls that differ are found.
//
// A packet needs no fence in front of it: this kernel has stored nothing for others yet,
// and what kernels before it stored was flushed to all devices as they ended. (A fence would
// not cover it if they were of another domain of memory synchronisation.) So the packet also
// says that what a rank gives can be read, and where it gets results can be written.
__device__ __forceinline__ bool hello(const Args &a, Block &b, Watch &w, u32 words) {
	__syncthreads();
	constexpr u32 stride = threads / helloWords; // where there are more ranks, a thread has a word of several
	const u32 first = threadIdx.x / helloWords, i = threadIdx.x % helloWords;
	const u32 end = i < words ? a.ranks : 0;
	const u32 tag = tagOf(a.hash, w.epoch);
	// All is said before anything is waited for.
	for (u32 p = first; p < end; p += stride) {
		if (p == a.rank) continue;
		u64 v = b.hello[i < helloBytes ? a.rank : p][i];
		putPacket(helloOf(a, p, w.lane, w.epoch, a.rank) + i, Words<2>{(u32)v, (u32)(v >> 32)}, tag);
	}
	// The numbers of a peer's buffers are most often those of the own: look the first up before it says.
	u64 dstBase = 0, srcBase = 0;
	if (i == helloBuffers && first < end && first != a.rank) dstBase = baseOf(a, first, a.dstBuffer), srcBase = baseOf(a, first, a.srcBuffer);
	bool ok = true;
	for (u32 p = first; p < end && ok; p += stride) {
		if (p == a.rank) continue;
		Words<2> d = {0, 0};
		ok = takePacket<true>(w, awaitHello, p, helloOf(a, a.rank, w.lane, w.epoch, p) + i, tag, d);
		b.hello[p][i] = (u64)d.w[1] << 32 | d.w[0];
		if (i == helloBuffers) {
			b.dstBase[p] = p == first && d.w[1] == a.dstBuffer ? dstBase : baseOf(a, p, d.w[1]);
			b.srcBase[p] = p == first && d.w[0] == a.srcBuffer ? srcBase : baseOf(a, p, d.w[0]);
		}
	}
	return __syncthreads_and(ok);
}

__device__ __forceinline__ void sayWhere(const Args &a, Block &b) {
	if (threadIdx.x == 0) {
		u64 *h = b.hello[a.rank];
		h[helloBuffers] = (u64)a.dstBuffer << 32 | a.srcBuffer;
		h[helloDst] = a.dstOffset, h[helloSrc] = a.srcOffset, h[helloFlags] = a.flags;
	}
}

// dstOf and srcOf are the addresses here of a rank's buffers in this call.
__device__ __forceinline__ u64 dstOf(const Args &a, const Block &b, u32 p) {
	return p == a.rank ? a.dst : b.dstBase[p] + b.hello[p][helloDst];
}
__device__ __forceinline__ u64 srcOf(const Args &a, const Block &b, u32 p) {
	return p == a.rank ? a.src : b.srcBase[p] + b.hello[p][helloSrc];
}

// Range is a part of a block, in elements.
struct Range { u64 from, to; };

// part is number i of n parts of a range, which begin at multiples of unit from its
// beginning.
__device__ __forceinline__ Range part(Range r, u32 i, u32 n, u64 unit) {
	u64 units = (r.to - r.from + unit - 1) / unit;
	u64 from = r.from + units * i / n * unit, to = r.from + units * (i + 1) / n * unit;
	return Range{from < r.to ? from : r.to, to < r.to ? to : r.to};
}
