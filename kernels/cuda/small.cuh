// Collectives of few bytes: every rank puts its block into memory of all others in
// packets, whose flags say that they are there. There is no other synchronisation.
// Each rank sends each other at least one packet in every lane: a packet is the leave to
// use the place of the call before last again.
#pragma once
#include "lane.cuh"

// packetsOf is the packets of this lane for a block.
__device__ __forceinline__ u32 packetsOf(u64 bytes, u32 lane) {
	u64 from = (u64)lane * smallBytes;
	u64 n = bytes > from ? (bytes - from + 7) / 8 : 0;
	return n > threads ? threads : n > 0 ? (u32)n : 1;
}

// openSmall is openLane without a step of the block: each thread fetches what it needs. They may
// differ in whether the communicator has failed, so that none leaves early.
__device__ __forceinline__ bool openSmall(const Args &a, Watch &w) {
	Lane *l = laneOf(a, a.rank, w.lane);
	u64 failed = peek(&own(a)->failed);
	w.epoch = peek(&l->calls), w.step = peek(&l->steps);
	return failed == 0;
}

// smallReduce is AllReduce, Reduce and ReduceScatterBlock.
template <class T> __device__ __forceinline__ void smallReduce(const Args &a) {
	Watch w{a, blockIdx.x};
	afterLast();
	u64 bytes = a.count * sizeof(typename T::Bits);
	u32 t = threadIdx.x;
	u64 at = (u64)w.lane * smallBytes + 8 * t;
	u32 n = at >= bytes ? 0 : bytes - at < 8 ? (u32)(bytes - at) : 8;
	u64 stride = a.collective == reduceScatterBlock ? bytes : 0;
	Words<2> mine = loadSome(a.src + a.rank * stride + at, n), d = mine;
	bool ok = openSmall(a, w);
	if (ok && t < packetsOf(bytes, w.lane)) {
		u32 tag = tagOf(a.hash, w.epoch);
		for (u32 k = 1; k < a.ranks; k++) {
			u32 p = (a.rank + k) % a.ranks;
			putPacket(smallOf(a, p, w.lane, w.epoch, a.rank) + t, stride ? loadSome(a.src + p * stride + at, n) : mine, tag);
		}
		typename T::Acc acc[8 / sizeof(typename T::Bits)];
		for (u32 p = 0; p < a.ranks && ok; p++) {
			d = mine;
			if (p != a.rank) ok = takePacket(w, awaitPacket, p, smallOf(a, a.rank, w.lane, w.epoch, p) + t, tag, d);
			if (p == 0) begin<T, 2>(a.op, acc, d);
			else combine<T, 2>(a.op, acc, d);
		}
		if (a.ranks > 1) d = finish<T, 2>(a.op, a.ranks, acc);
		if (ok && (a.collective != reduce || a.rank == a.root)) storeSome(a.dst + at, n, d);
	}
	if (__syncthreads_and(ok)) closeLane(a, w);
}

// smallMove is Broadcast, AllGather, AllToAll and Barrier.
__device__ __forceinline__ void smallMove(const Args &a) {
	Watch w{a, blockIdx.x};
	afterLast();
	u64 bytes = a.count;
	u32 t = threadIdx.x;
	u64 at = (u64)w.lane * smallBytes + 8 * t;
	u32 n = at >= bytes ? 0 : bytes - at < 8 ? (u32)(bytes - at) : 8;
	u64 sendStride = a.collective == allToAll ? bytes : 0, recvStride = a.collective == broadcast ? 0 : bytes;
	bool rooted = a.collective == broadcast, gives = !rooted || a.rank == a.root;
	u32 full = packetsOf(bytes, w.lane);
	Words<2> mine = loadSome(a.src + a.rank * sendStride + at, gives ? n : 0);
	bool ok = openSmall(a, w);
	u32 tag = tagOf(a.hash, w.epoch);
	if (ok && t < (gives ? full : 1)) {
		for (u32 k = 1; k < a.ranks; k++) {
			u32 p = (a.rank + k) % a.ranks;
			putPacket(smallOf(a, p, w.lane, w.epoch, a.rank) + t, sendStride ? loadSome(a.src + p * sendStride + at, n) : mine, tag);
		}
		if (!rooted) storeSome(a.dst + a.rank * recvStride + at, n, mine);
	}
	for (u32 k = 1; k < a.ranks && ok; k++) {
		u32 p = (a.rank + a.ranks - k) % a.ranks;
		bool data = !rooted || p == a.root;
		if (t >= (data ? full : 1)) continue;
		Words<2> d;
		ok = takePacket(w, awaitPacket, p, smallOf(a, a.rank, w.lane, w.epoch, p) + t, tag, d);
		if (ok && data) storeSome(a.dst + p * recvStride + at, n, d);
	}
	if (__syncthreads_and(ok)) closeLane(a, w);
}
