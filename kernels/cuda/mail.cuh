// Messages between two ranks. Each mail lane moves every mailLanes-th chunk of a
// message through slots in the receiver's segment, and at least one, if an empty one. A
// sender is done when all chunks are under way: mailLanes·mailSlots of them fit. A block has
// one lane, or several one after another where many ranks share a device; both ends do alike.
#pragma once
#include "lane.cuh"

__device__ __forceinline__ u64 chunkBytes(u64 at, u64 total) { return at >= total ? 0 : total - at < mailSlotBytes ? total - at : mailSlotBytes; }

__device__ __forceinline__ u64 slotOf(Mail *m, u64 chunk) { return reinterpret_cast<u64>(m + 1) + chunk % mailSlots * mailSlotBytes; }

// mailSend sends this lane's chunks. False: it failed.
__device__ __forceinline__ bool mailSend(const Args &a, const Blocks &m, Watch &w) {
	Mail *here = mailOf(a, a.rank, a.to, w.lane), *there = mailOf(a, a.to, a.rank, w.lane);
	u64 chunk = here->sent;
	__syncthreads();
	for (u64 at = (u64)w.lane * mailSlotBytes;; at += mailLanes * mailSlotBytes, chunk++) {
		u64 bytes = chunkBytes(at, m.sendBytes[a.to]);
		if (at != (u64)w.lane * mailSlotBytes && bytes == 0) break;
		w.epoch = chunk;
		bool ok = true;
		if (threadIdx.x == 0 && chunk >= mailSlots) ok = wait(w, awaitCredit, a.to, &here->credit, chunk - mailSlots + 1);
		if (!__syncthreads_and(ok)) return false;
		if (threadIdx.x == 0) putPacket(&there->header[chunk % mailSlots], Words<2>{(u32)bytes, 0}, tagOf(a.hash, chunk));
		putCounted(slotOf(there, chunk), a.src + at, bytes, &there->counted);
	}
	if (threadIdx.x == 0) here->sent = chunk;
	return true;
}

__device__ __forceinline__ bool mailRecv(const Args &a, const Blocks &m, Watch &w) {
	Mail *here = mailOf(a, a.rank, a.from, w.lane), *there = mailOf(a, a.from, a.rank, w.lane);
	u64 chunk = here->taken, counted = here->takenBytes;
	__syncthreads();
	for (u64 at = (u64)w.lane * mailSlotBytes;; at += mailLanes * mailSlotBytes, chunk++) {
		u64 bytes = chunkBytes(at, m.recvBytes[a.from]);
		if (at != (u64)w.lane * mailSlotBytes && bytes == 0) break;
		w.epoch = chunk, counted += bytes;
		bool ok = true;
		if (threadIdx.x == 0) {
			Words<2> d;
			ok = takePacket(w, awaitHeader, a.from, &here->header[chunk % mailSlots], tagOf(a.hash, chunk), d) &&
			     wait(w, awaitCounter, a.from, &here->counted, counted);
		}
		if (!__syncthreads_and(ok)) return false;
		move(a.dst + at, slotOf(here, chunk), bytes, true);
		__syncthreads();
		if (threadIdx.x == 0) signal(&there->credit, chunk + 1);
	}
	if (threadIdx.x == 0) here->taken = chunk, here->takenBytes = counted;
	return true;
}

// mail is Send, Recv and both at once, with as many blocks for each.
__device__ __forceinline__ void mail(const Args &a, const Blocks &m) {
	__shared__ Block b;
	if (!openKernel(a, b)) return;
	const bool sends = a.to < a.ranks, recvs = a.from < a.ranks;
	const u32 n = sends && recvs ? gridDim.x / 2 : gridDim.x;
	Watch w{a, blockIdx.x % n};
	for (; w.lane < mailLanes; w.lane += n)
		if (!(sends && blockIdx.x < n ? mailSend(a, m, w) : mailRecv(a, m, w))) return;
}
