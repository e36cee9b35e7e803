// Collectives of many bytes. Ranks read and write each other's buffers, if these are
// registered on all of them; else every rank copies its block, chunk by chunk, into its
// own segment, where the others fetch it.
#pragma once
#include "lane.cuh"

// reduceSome is pullReduce of the elements of a range: the addresses in b.src and b.dst
// are those of element base.
template <class T> __device__ __forceinline__ void reduceSome(const Args &a, Block &b, u32 nd, u32 ns, Range r, u64 base) {
	u64 shift = (r.from - base) * sizeof(typename T::Bits);
	__syncthreads();
	if (threadIdx.x < nd) b.dst[threadIdx.x] += shift;
	if (threadIdx.x < ns) b.src[threadIdx.x] += shift;
	__syncthreads();
	if (r.to > r.from) pullReduce<T>(a.op, a.ranks, b.dst, nd, b.src, ns, r.to - r.from);
}

// largeReduce is AllReduce, Reduce, ReduceScatterBlock, and Broadcast as the reduction of
// what one rank has. But for ReduceScatterBlock each rank reduces a part, and puts it to,
// or keeps it for, those who get the result.
template <class T> __device__ __forceinline__ void largeReduce(const Args &a) {
	__shared__ Block b;
	Watch w{a, blockIdx.x};
	if (!openLane(a, b, w)) return;
	constexpr u64 size = sizeof(typename T::Bits), unit = sliceBytes / size;
	const u32 me = a.rank, n = a.ranks;
	const bool scatter = a.collective == reduceScatterBlock;
	const bool oneSource = a.collective == broadcast, oneResult = a.collective == reduce;
	sayWhere(a, b);
	if (!hello(a, b, w, helloLongest)) return;

	bool direct = true;
	for (u32 p = 0; p < n; p++) {
		bool reads = oneSource ? p == a.root : true;
		bool writes = scatter ? false : oneResult ? p == a.root : oneSource ? p != a.root : true;
		if (reads && (u32)b.hello[p][helloBuffers] == 0) direct = false;
		if (writes && b.hello[p][helloBuffers] >> 32 == 0) direct = false;
	}
	Range mine = part(Range{0, a.count}, w.lane, gridDim.x, unit);
	u32 ns = oneSource ? 1 : n;
	if (direct) {
		u32 nd = scatter || oneResult ? 1 : oneSource ? n - 1 : n;
		if (threadIdx.x < ns) {
			u32 p = oneSource ? a.root : threadIdx.x;
			b.src[threadIdx.x] = srcOf(a, b, p) + (scatter ? me * a.count * size : 0);
		}
		if (threadIdx.x < nd) {
			// Not all to one rank at a time.
			u32 p = scatter ? me : oneResult ? a.root : (me + threadIdx.x) % n;
			if (oneSource) p = (a.root + 1 + (me + threadIdx.x) % nd) % n;
			b.dst[threadIdx.x] = dstOf(a, b, p);
		}
		reduceSome<T>(a, b, nd, ns, scatter ? mine : part(mine, me, n, unit), 0);
		if (step(a, w)) closeLane(a, w);
		return;
	}

	// Stage 0 has what is reduced, stage 1 results; with ReduceScatterBlock, where there is
	// no second step, both have the former in turn.
	bool gives = !oneSource || me == a.root;
	bool gets = oneResult ? me == a.root : !(oneSource && me == a.root);
	u64 piece = (scatter ? stageBytes / n / sliceBytes * sliceBytes : stageBytes) / size;
	u32 turn = 0;
	for (u64 at = mine.from; at < mine.to; at += piece, turn ^= 1) {
		Range chunk{at, at + piece < mine.to ? at + piece : mine.to};
		u64 bytes = (chunk.to - chunk.from) * size;
		u32 in = scatter ? turn : 0;
		if (scatter) {
			for (u32 p = 0; p < n; p++)
				put(stageOf(a, me, w.lane, in) + p * piece * size, a.src + (p * a.count + at) * size, bytes);
		} else if (gives) {
			put(stageOf(a, me, w.lane, 0), a.src + at * size, bytes);
		}
		if (!step(a, w)) return;
		if (threadIdx.x < ns) {
			u32 p = oneSource ? a.root : threadIdx.x;
			b.src[threadIdx.x] = stageOf(a, p, w.lane, in) + (scatter ? me * piece * size : 0);
		}
		if (threadIdx.x == 0) {
			b.dst[0] = scatter || gets ? a.dst + at * size : stageOf(a, me, w.lane, 1);
			b.dst[1] = stageOf(a, me, w.lane, 1);
		}
		reduceSome<T>(a, b, scatter || !gets ? 1 : 2, ns, scatter ? chunk : part(chunk, me, n, unit), at);
		if (scatter) continue;
		if (!step(a, w)) return;
		for (u32 k = 1; gets && k < n; k++) {
			u32 p = (me + k) % n;
			Range theirs = part(chunk, p, n, unit);
			get(a.dst + theirs.from * size, stageOf(a, p, w.lane, 1) + (theirs.from - at) * size, (theirs.to - theirs.from) * size);
		}
	}
	closeLane(a, w);
}

// largeMove is AllGather and AllToAll(V): between each two ranks a block. A rank's block for
// itself is copied by blocks of their own (gridDim.y is 2), which wait for nobody; where
// memory overlaps it is copied in turn, or is in its place.
__device__ __forceinline__ void largeMove(const Args &a, const Blocks &m) {
	__shared__ Block b;
	const u32 me = a.rank, n = a.ranks;
	if (blockIdx.y == 1) {
		afterLast();
		beforeNext();
		Range r = part(Range{0, m.recvBytes[me]}, blockIdx.x, gridDim.x, sliceBytes);
		if (r.to > r.from) put(a.dst + m.recvAt[me] + r.from, a.src + m.sendAt[me] + r.from, r.to - r.from);
		return;
	}
	const bool apart = gridDim.y == 2;
	Watch w{a, blockIdx.x};
	if (!openLane(a, b, w)) return;
	sayWhere(a, b);
	if (threadIdx.x == 0) {
		u64 longest = 0;
		for (u32 p = 0; p < n; p++)
			if (m.sendBytes[p] > longest) longest = m.sendBytes[p];
		b.hello[me][helloLongest] = longest;
	}
	if (threadIdx.x < n && threadIdx.x != me) {
		b.hello[threadIdx.x][helloBytes] = m.sendBytes[threadIdx.x];
		b.hello[threadIdx.x][helloTo] = a.dstOffset + m.recvAt[threadIdx.x];
		b.hello[threadIdx.x][helloWant] = m.recvBytes[threadIdx.x];
	}
	if (!hello(a, b, w, helloUsed)) return;
	bool ok = true, direct = true;
	u64 longest = 0;
	for (u32 p = 0; p < n; p++) {
		if (b.hello[p][helloLongest] > longest) longest = b.hello[p][helloLongest];
		if (b.hello[p][helloBuffers] >> 32 == 0 || (b.hello[p][helloFlags] & inPlace) != 0) direct = false;
		// Both ends look: the one must not put more than there is room for, the other not wait.
		bool more = b.hello[p][helloBytes] != m.recvBytes[p];
		if (p != me && (more || b.hello[p][helloWant] != m.sendBytes[p])) {
			if (threadIdx.x == 0) fail(w, reasonMismatch, awaitHello, p, more ? m.recvBytes[p] : m.sendBytes[p], b.hello[p][more ? helloBytes : helloWant]);
			ok = false;
		}
	}
	if (!ok) return;

	if (direct) {
		for (u32 k = 1; k < n; k++) {
			u32 p = (me + k) % n;
			Range r = part(Range{0, m.sendBytes[p]}, w.lane, gridDim.x, sliceBytes);
			if (r.to > r.from) put(b.dstBase[p] + b.hello[p][helloTo] + r.from, a.src + m.sendAt[p] + r.from, r.to - r.from);
		}
		if (step(a, w)) closeLane(a, w);
		return;
	}

	const bool same = a.collective == allGather;
	const u64 piece = same ? stageBytes : stageBytes / n / sliceBytes * sliceBytes;
	u32 turn = 0;
	for (u64 at = w.lane * piece; at < longest; at += gridDim.x * piece, turn ^= 1) {
		for (u32 p = 0; p < n; p++) {
			u64 bytes = at < m.sendBytes[p] ? (m.sendBytes[p] - at < piece ? m.sendBytes[p] - at : piece) : 0;
			u64 from = a.src + m.sendAt[p] + at;
			if (p == me && !apart) {
				u64 to = a.dst + m.recvAt[me] + at;
				if (bytes && to != from) put(to, from, bytes);
			}
			if (bytes && (same ? p == me : p != me)) put(stageOf(a, me, w.lane, turn) + (same ? 0 : p * piece), from, bytes);
		}
		if (!step(a, w)) return;
		for (u32 k = 1; k < n; k++) {
			u32 p = (me + k) % n;
			u64 bytes = at < m.recvBytes[p] ? (m.recvBytes[p] - at < piece ? m.recvBytes[p] - at : piece) : 0;
			if (bytes) get(a.dst + m.recvAt[p] + at, stageOf(a, p, w.lane, turn) + (same ? 0 : me * piece), bytes);
		}
	}
	closeLane(a, w);
}
