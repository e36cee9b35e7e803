// The operations by which bytes move between ranks, over memory that is mapped:
// put, counted put, put to all, get, pull-reduce, packets, signal and wait. Nothing
// outside this file loads from or stores to another rank's memory.
//
// All threads of a block make a block operation together. An operation on bytes says
// nothing of its end: what was put is there for a peer that has waited for a signal
// sent after it, or for the count.
#pragma once
#include "arith.cuh"

// --- words ---

__device__ __forceinline__ u64 peek(const u64 *p) {
	u64 v;
	asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
	return v;
}

__device__ __forceinline__ u64 peekAcquire(const u64 *p) {
	u64 v;
	asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
	return v;
}

__device__ __forceinline__ void poke(u64 *p, u64 v) {
	asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

// signal makes all that the block did before visible to whoever sees v. The block has
// synchronised since. A store with .release would be a second fence.
__device__ __forceinline__ void signal(u64 *p, u64 v) {
	asm volatile("fence.acq_rel.sys;\n\tst.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

// count is signal for a word that counts bytes.
__device__ __forceinline__ void count(u64 *p, u64 bytes) {
	asm volatile("fence.acq_rel.sys;\n\tred.relaxed.sys.global.add.u64 [%0], %1;" ::"l"(p), "l"(bytes) : "memory");
}

__device__ __forceinline__ u64 nowNs() {
	u64 t;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
	return t;
}

// --- failures ---

// Watch is a thread's patience: what it is in, and until when it waits.
struct Watch {
	const Args &a;
	u32 lane;
	u64 epoch, step;
	u64 deadlineNs;
	u32 polls;
};

__device__ __forceinline__ Segment *own(const Args &a) { return reinterpret_cast<Segment *>(a.segment[a.rank]); }

// fail keeps the first failure of this rank, for its host, and tells the peers.
__device__ __noinline__ void fail(Watch &w, Reason reason, Awaited awaited, u32 peer, u64 want, u64 seen) {
	const Args &a = w.a;
	if (atomicCAS(&own(a)->failed, 0ull, 1ull) != 0) return;
	Record *r = &reinterpret_cast<Page *>(a.page)->record;
	volatile Record *v = r;
	v->reason = reason, v->rank = a.rank, v->peer = peer, v->collective = a.collective;
	v->seq = a.seq, v->epoch = w.epoch, v->step = w.step, v->lane = w.lane;
	v->awaited = awaited, v->want = want, v->seen = seen;
	signal(&r->written, 1);
	if (reason == reasonPoison) return; // the peer has told all
	u64 poison = (u64)peer << 32 | (u64)reason << 16 | (a.rank + 1);
	for (u32 p = 0; p < a.ranks; p++)
		if (p != a.rank) poke(&reinterpret_cast<Segment *>(a.segment[p])->poison, poison);
}

__device__ __noinline__ bool slowlyPatient(Watch &w, Awaited awaited, u32 peer, u64 want, u64 seen) {
	const Args &a = w.a;
	u64 now = nowNs();
	if (w.deadlineNs == 0) w.deadlineNs = now + a.timeoutNs;
	if (peek(&own(a)->failed) != 0) return false;
	if (u64 by = peek(&own(a)->poison)) {
		fail(w, reasonPoison, awaited, (u32)(by & 0xFFFF) - 1, by, seen);
	} else if (peek(&reinterpret_cast<Page *>(a.page)->abort) != 0) {
		fail(w, reasonAbort, awaited, peer, want, seen);
	} else if (now >= w.deadlineNs) {
		fail(w, reasonTimeout, awaited, peer, want, seen);
	} else {
		return true;
	}
	return false;
}

// patient says whether to go on waiting for something of a peer's.
__device__ __forceinline__ bool patient(Watch &w, Awaited awaited, u32 peer, u64 want, u64 seen) {
	return (++w.polls & 255) != 0 || slowlyPatient(w, awaited, peer, want, seen);
}

// wait returns when a word that only grows is at least want; false: it failed. What
// was done before the signal is visible to the thread, and to its block once that has
// synchronised.
__device__ __forceinline__ bool wait(Watch &w, Awaited awaited, u32 peer, const u64 *p, u64 want) {
	w.deadlineNs = 0;
	for (;;) {
		u64 seen = peekAcquire(p);
		if (seen >= want) return true;
		if (!patient(w, awaited, peer, want, seen)) return false;
	}
}

// --- packets ---

// tagOf is the flag of a packet: different for different calls, and for one call at
// different times.
__device__ __forceinline__ u32 tagOf(u32 hash, u64 epoch) {
	u32 t = hash + (u32)epoch * 0x9E3779B1u;
	return t ? t : 1;
}

__device__ __forceinline__ void putPacket(Packet *p, Words<2> d, u32 tag) {
	asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(d.w[0]), "r"(tag), "r"(d.w[1]), "r"(tag) : "memory");
}

// readPacket reads a packet, and what was before it is visible to the thread if acquire: its
// halves, each of which has the flag, are read one by one then.
__device__ __forceinline__ void readPacket(const Packet *p, bool acquire, Words<2> &d, u32 &flag, u32 &again) {
	if (acquire) {
		u64 low = peekAcquire(reinterpret_cast<const u64 *>(p)), high = peekAcquire(reinterpret_cast<const u64 *>(p) + 1);
		d.w[0] = (u32)low, flag = (u32)(low >> 32), d.w[1] = (u32)high, again = (u32)(high >> 32);
	} else {
		asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
		             : "=r"(d.w[0]), "=r"(flag), "=r"(d.w[1]), "=r"(again) : "l"(p) : "memory");
	}
}

// takePacket waits for a packet, and removes it, so that its flag can come again when
// all numbers have been used.
template <bool acquire = false>
__device__ __forceinline__ bool takePacket(Watch &w, Awaited awaited, u32 peer, Packet *p, u32 tag, Words<2> &d) {
	w.deadlineNs = 0;
	for (;;) {
		u32 flag, again;
		readPacket(p, acquire, d, flag, again);
		if (flag == tag && again == tag) break;
		u32 odd = flag != 0 && flag != tag ? flag : again != 0 && again != tag ? again : 0;
		if (odd != 0) {
			fail(w, reasonMismatch, awaited, peer, tag, odd);
			return false;
		}
		if (!patient(w, awaited, peer, tag, flag)) return false;
	}
	*p = Packet{0, 0, 0, 0};
	return true;
}

// --- bytes ---

// load and store move 4·N bytes at an address that is a multiple of align, which
// counts as 4·N, 4 or 1.
template <int N> __device__ __forceinline__ Words<N> load(u64 at, u32 align);
template <int N> __device__ __forceinline__ void store(u64 at, u32 align, Words<N> d);

__device__ __forceinline__ u32 load8(u64 at) {
	u32 v;
	asm volatile("ld.global.u8 %0, [%1];" : "=r"(v) : "l"(at));
	return v;
}

__device__ __forceinline__ void store8(u64 at, u32 v) { asm volatile("st.global.u8 [%0], %1;" ::"l"(at), "r"(v) : "memory"); }

template <int N> __device__ __forceinline__ Words<N> loadWide(u64 at);
template <> __device__ __forceinline__ Words<4> loadWide(u64 at) {
	Words<4> d;
	asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(d.w[0]), "=r"(d.w[1]), "=r"(d.w[2]), "=r"(d.w[3]) : "l"(at));
	return d;
}
template <> __device__ __forceinline__ Words<2> loadWide(u64 at) {
	Words<2> d;
	asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(d.w[0]), "=r"(d.w[1]) : "l"(at));
	return d;
}

template <int N> __device__ __forceinline__ void storeWide(u64 at, Words<N> d);
template <> __device__ __forceinline__ void storeWide(u64 at, Words<4> d) {
	asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(d.w[0]), "r"(d.w[1]), "r"(d.w[2]), "r"(d.w[3]) : "memory");
}
template <> __device__ __forceinline__ void storeWide(u64 at, Words<2> d) {
	asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(at), "r"(d.w[0]), "r"(d.w[1]) : "memory");
}

template <int N> __device__ __forceinline__ Words<N> load(u64 at, u32 align) {
	if (align >= 4 * N) return loadWide<N>(at);
	Words<N> d;
	if (align >= 4) {
#pragma unroll
		for (int i = 0; i < N; i++) asm volatile("ld.global.u32 %0, [%1];" : "=r"(d.w[i]) : "l"(at + 4 * i));
	} else {
#pragma unroll
		for (int i = 0; i < N; i++) {
			d.w[i] = 0;
#pragma unroll
			for (int j = 0; j < 4; j++) d.w[i] |= load8(at + 4 * i + j) << 8 * j;
		}
	}
	return d;
}

template <int N> __device__ __forceinline__ void store(u64 at, u32 align, Words<N> d) {
	if (align >= 4 * N) {
		storeWide<N>(at, d);
	} else if (align >= 4) {
#pragma unroll
		for (int i = 0; i < N; i++) asm volatile("st.global.u32 [%0], %1;" ::"l"(at + 4 * i), "r"(d.w[i]) : "memory");
	} else {
#pragma unroll
		for (int i = 0; i < N; i++)
#pragma unroll
			for (int j = 0; j < 4; j++) store8(at + 4 * i + j, d.w[i] >> 8 * j);
	}
}

// alignOf is the greatest power of two, to 16, that divides the address.
__device__ __forceinline__ u32 alignOf(u64 at) { return (u32)((at | 16) & (0 - (at | 16))); }

// loadSome and storeSome move n ≤ 8 bytes.
__device__ __forceinline__ Words<2> loadSome(u64 at, u32 n) {
	if (n == 8) return load<2>(at, alignOf(at));
	Words<2> d = {{0, 0}};
	for (u32 i = 0; i < n; i++) d.w[i >> 2] |= load8(at + i) << 8 * (i & 3);
	return d;
}

__device__ __forceinline__ void storeSome(u64 at, u32 n, Words<2> d) {
	if (n == 8) return store<2>(at, alignOf(at), d);
	for (u32 i = 0; i < n; i++) store8(at + i, d.w[i >> 2] >> 8 * (i & 3));
}

// move copies n bytes. Whole vectors go to or come from the far side where the two
// are not aligned alike.
__device__ __noinline__ void move(u64 dst, u64 src, u64 n, bool farIsSrc) {
	u32 t = threadIdx.x;
	u64 far = farIsSrc ? src : dst;
	u32 head = (u32)(-far & 15);
	if (head > n) head = (u32)n;
	if (t < head) store8(dst + t, load8(src + t));
	dst += head, src += head, n -= head;
	u32 to = alignOf(dst), from = alignOf(src);
	u64 vectors = n / 16, i = t;
	if (to == 16 && from == 16) {
		for (; i < vectors; i += 4 * threads) {
			Words<4> d[4];
#pragma unroll
			for (int k = 0; k < 4; k++)
				if (i + k * threads < vectors) d[k] = loadWide<4>(src + 16 * (i + k * threads));
#pragma unroll
			for (int k = 0; k < 4; k++)
				if (i + k * threads < vectors) storeWide<4>(dst + 16 * (i + k * threads), d[k]);
		}
	}
	for (; i < vectors; i += threads) store<4>(dst + 16 * i, to, load<4>(src + 16 * i, from));
	u32 tail = (u32)(n & 15);
	if (t < tail) store8(dst + 16 * vectors + t, load8(src + 16 * vectors + t));
}

// put copies to a peer's memory, get from it.
__device__ __forceinline__ void put(u64 peerDst, u64 src, u64 n) { move(peerDst, src, n, false); }
__device__ __forceinline__ void get(u64 dst, u64 peerSrc, u64 n) { move(dst, peerSrc, n, true); }

// putCounted puts, and then adds n to a counter in the peer's memory.
__device__ __forceinline__ void putCounted(u64 peerDst, u64 src, u64 n, u64 *peerCounter) {
	put(peerDst, src, n);
	__syncthreads();
	if (threadIdx.x == 0 && n != 0) count(peerCounter, n);
}

// putAll stores a vector in the memory of several ranks.
template <int N> __device__ __forceinline__ void putAll(const u64 *dsts, u32 n, u64 at, Words<N> d) {
	for (u32 p = 0; p < n; p++) store<N>(dsts[p] + at, alignOf(dsts[p]), d);
}

// pullReduce combines m elements from each source in order and puts the result to
// each destination. The addresses are in memory that the block shares. An element is
// read by the thread that writes it, and before, so that a destination may be a source.
template <class T> __device__ __noinline__ void pullReduce(u32 op, u32 contributions, const u64 *dsts, u32 nd, const u64 *srcs, u32 ns, u64 m) {
	constexpr int V = 16 / sizeof(typename T::Bits);
	constexpr int U = V <= 4 ? 4 : V == 8 ? 2 : 1; // vectors at a time
	u64 all = 0;
	for (u32 p = 0; p < nd; p++) all |= dsts[p];
	for (u32 p = 0; p < ns; p++) all |= srcs[p];
	u64 vectors = m / V, i = threadIdx.x;
	if ((all & 15) == 0) {
		// Loads of all vectors, and of the next source, are under way together.
		for (; i < vectors; i += U * threads) {
			Words<4> d[U] = {}, next[U] = {};
			typename T::Acc acc[U][V];
			bool in[U];
#pragma unroll
			for (int k = 0; k < U; k++) {
				in[k] = i + k * threads < vectors;
				if (in[k]) d[k] = loadWide<4>(srcs[0] + 16 * (i + k * threads));
			}
			if (ns > 1) {
#pragma unroll
				for (int k = 0; k < U; k++)
					if (in[k]) next[k] = loadWide<4>(srcs[1] + 16 * (i + k * threads));
#pragma unroll
				for (int k = 0; k < U; k++) begin<T, 4>(op, acc[k], d[k]);
				for (u32 p = 1; p < ns; p++) {
#pragma unroll
					for (int k = 0; k < U; k++) d[k] = next[k];
					if (p + 1 < ns) {
#pragma unroll
						for (int k = 0; k < U; k++)
							if (in[k]) next[k] = loadWide<4>(srcs[p + 1] + 16 * (i + k * threads));
					}
#pragma unroll
					for (int k = 0; k < U; k++) combine<T, 4>(op, acc[k], d[k]);
				}
#pragma unroll
				for (int k = 0; k < U; k++) d[k] = finish<T, 4>(op, contributions, acc[k]);
			}
			for (u32 p = 0; p < nd; p++) {
#pragma unroll
				for (int k = 0; k < U; k++)
					if (in[k]) storeWide<4>(dsts[p] + 16 * (i + k * threads), d[k]);
			}
		}
	}
	for (; i < vectors; i += threads) {
		Words<4> d = load<4>(srcs[0] + 16 * i, alignOf(srcs[0]));
		if (ns > 1) {
			typename T::Acc acc[V];
			begin<T, 4>(op, acc, d);
			for (u32 p = 1; p < ns; p++) combine<T, 4>(op, acc, load<4>(srcs[p] + 16 * i, alignOf(srcs[p])));
			d = finish<T, 4>(op, contributions, acc);
		}
		putAll<4>(dsts, nd, 16 * i, d);
	}
	// What is left is less than a vector: 8 bytes or less for each of two threads.
	u64 rest = (m - vectors * V) * sizeof(typename T::Bits);
	u64 at = vectors * 16 + threadIdx.x * 8;
	if (threadIdx.x * 8 < rest) {
		u32 n = rest - threadIdx.x * 8 < 8 ? (u32)(rest - threadIdx.x * 8) : 8;
		Words<2> d = loadSome(srcs[0] + at, n);
		if (ns > 1) {
			typename T::Acc acc[V / 2];
			begin<T, 2>(op, acc, d);
			for (u32 p = 1; p < ns; p++) combine<T, 2>(op, acc, loadSome(srcs[p] + at, n));
			d = finish<T, 2>(op, contributions, acc);
		}
		for (u32 p = 0; p < nd; p++) storeSome(dsts[p] + at, n, d);
	}
}
