// The arithmetic of reductions, with the bits of package kernels. Each element type
// says how its numbers are widened, rounded and ordered; accumulators hold the bits of
// a partial sum or product in the wide type, or the winner of Min and Max as it was.
#pragma once
#include "layout.cuh"

// Floats that are summed as float32.
template <class T> struct ByFloat32 {
	typedef u32 Acc;
	static __device__ __forceinline__ u32 wide(u32 x) { return __float_as_uint(T::widen(x)); }
	static __device__ __forceinline__ u32 add(u32 a, u32 x) { return __float_as_uint(__fadd_rn(__uint_as_float(a), T::widen(x))); }
	static __device__ __forceinline__ u32 mul(u32 a, u32 x) { return __float_as_uint(__fmul_rn(__uint_as_float(a), T::widen(x))); }
	static __device__ __forceinline__ u32 narrow(u32 a) { return T::round(__uint_as_float(a)); }
	static __device__ __forceinline__ u32 average(u32 a, u32 n) { return T::round(__fdiv_rn(__uint_as_float(a), (float)n)); }
};

// Floats are ordered by keys: their bits as a signed number, all but the sign flipped
// where that is set. T::inf is the greatest pattern that is no NaN.
template <class T, class S> struct Ordered {
	static __device__ __forceinline__ S key(S x) { return x ^ (x >> (8 * sizeof(S) - 1) & T::magnitude); }
	static __device__ __forceinline__ bool isNaN(S x) { return (x & T::magnitude) > T::inf; }
	static __device__ __forceinline__ S pick(S a, S b, bool greatest) {
		if (isNaN(a) || isNaN(b)) return T::nan;
		return (key(a) < key(b)) != greatest ? a : b;
	}
};

struct Float32 : ByFloat32<Float32>, Ordered<Float32, int> {
	typedef u32 Bits;
	static constexpr int magnitude = 0x7FFFFFFF, inf = 0x7F800000, nan = 0x7FFFFFFF;
	static __device__ __forceinline__ float widen(u32 x) { return __uint_as_float(x); }
	static __device__ __forceinline__ u32 round(float x) { return __float_as_uint(x); }
	static __device__ __forceinline__ u32 order(u32 a, u32 b, bool greatest) { return pick(a, b, greatest); }
};

struct Float16 : ByFloat32<Float16>, Ordered<Float16, int> {
	typedef u16 Bits;
	static constexpr int magnitude = 0x7FFF, inf = 0x7C00, nan = 0x7FFF;
	static __device__ __forceinline__ float widen(u32 x) {
		float f;
		asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"((u16)x));
		return f;
	}
	static __device__ __forceinline__ u32 round(float x) {
		u16 h;
		asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
		return h;
	}
	static __device__ __forceinline__ u32 order(u32 a, u32 b, bool greatest) { return (u16)pick((short)a, (short)b, greatest); }
};

struct BFloat16 : ByFloat32<BFloat16>, Ordered<BFloat16, int> {
	typedef u16 Bits;
	static constexpr int magnitude = 0x7FFF, inf = 0x7F80, nan = 0x7FFF;
	static __device__ __forceinline__ float widen(u32 x) { return __uint_as_float(x << 16); }
	static __device__ __forceinline__ u32 round(float x) {
		u16 h;
		asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
		return h;
	}
	static __device__ __forceinline__ u32 order(u32 a, u32 b, bool greatest) { return (u16)pick((short)a, (short)b, greatest); }
};

// The 8-bit formats, rounded as kernels/float8.go does it: sm_80 has no instruction.
template <int fraction, int bias, int most, int last> struct Float8 : ByFloat32<Float8<fraction, bias, most, last>>, Ordered<Float8<fraction, bias, most, last>, int> {
	typedef u8 Bits;
	static constexpr int magnitude = 0x7F, inf = last, nan = 0x7F;
	static constexpr u32 dropped = 23 - fraction, rebias = (127 - bias) << 23;
	static constexpr u32 normal = (127 + 1 - bias) << 23, magic = (127 + 1 - bias - fraction + 23) << 23;
	static __device__ __forceinline__ float widen(u32 x) {
		u32 m = x & 0x7F;
		if (m > last) return __uint_as_float(0x7FFFFFFF);
		u32 f = m > most ? 0x7F800000
		        : m < 1 << fraction ? __float_as_uint(__fsub_rn(__uint_as_float(magic + m), __uint_as_float(magic)))
		                            : (m << dropped) + rebias;
		return __uint_as_float(f | (x & 0x80) << 24);
	}
	static __device__ __forceinline__ u32 round(float x) {
		u32 u = __float_as_uint(x), sign = u >> 24 & 0x80;
		u &= 0x7FFFFFFF;
		if (u > 0x7F800000) return 0x7F;
		if (u >= normal) return sign | min((u - rebias + (1u << (dropped - 1)) - 1 + (u >> dropped & 1)) >> dropped, (u32)most);
		return sign | (__float_as_uint(__fadd_rn(__uint_as_float(u), __uint_as_float(magic))) - magic);
	}
	static __device__ __forceinline__ u32 order(u32 a, u32 b, bool greatest) {
		return (u8)Ordered<Float8, int>::pick((signed char)a, (signed char)b, greatest);
	}
};
typedef Float8<3, 7, 0x7E, 0x7E> Float8E4M3;
typedef Float8<2, 15, 0x7B, 0x7C> Float8E5M2;

struct Float64 : Ordered<Float64, i64> {
	typedef u64 Bits;
	typedef u64 Acc;
	static constexpr i64 magnitude = 0x7FFFFFFFFFFFFFFF, inf = 0x7FF0000000000000, nan = 0x7FFFFFFFFFFFFFFF;
	static __device__ __forceinline__ double number(u64 x) { return __longlong_as_double((i64)x); }
	static __device__ __forceinline__ u64 wide(u64 x) { return x; }
	static __device__ __forceinline__ u64 add(u64 a, u64 x) { return (u64)__double_as_longlong(__dadd_rn(number(a), number(x))); }
	static __device__ __forceinline__ u64 mul(u64 a, u64 x) { return (u64)__double_as_longlong(__dmul_rn(number(a), number(x))); }
	static __device__ __forceinline__ u64 narrow(u64 a) { return a; }
	static __device__ __forceinline__ u64 average(u64 a, u32 n) { return (u64)__double_as_longlong(__ddiv_rn(number(a), (double)n)); }
	static __device__ __forceinline__ u64 order(u64 a, u64 b, bool greatest) { return (u64)pick((i64)a, (i64)b, greatest); }
};

// Integers. B is the unsigned type of the bits, S the type itself.
template <class B, class S, class A> struct Integer {
	typedef B Bits;
	typedef A Acc;
	static __device__ __forceinline__ A wide(A x) { return x; }
	static __device__ __forceinline__ A add(A a, A x) { return a + x; }
	static __device__ __forceinline__ A mul(A a, A x) { return a * x; }
	static __device__ __forceinline__ A narrow(A a) { return (B)a; }
	static __device__ __forceinline__ A average(A a, u32 n) { return (B)((i64)(S)(B)a / (i64)n); }
	static __device__ __forceinline__ A order(A a, A b, bool greatest) { return ((S)a < (S)b) != greatest ? a : b; }
};
typedef Integer<u32, int, u32> Int32;
typedef Integer<u64, i64, u64> Int64;
typedef Integer<u8, u8, u32> Uint8;

// element is number e of a vector, and pack puts it there.
template <class T, int N> __device__ __forceinline__ typename T::Acc element(Words<N> d, int e) {
	if constexpr (sizeof(typename T::Bits) == 8) {
		return (u64)d.w[2 * e + 1] << 32 | d.w[2 * e];
	} else {
		constexpr int bits = 8 * sizeof(typename T::Bits), per = 32 / bits;
		return (typename T::Bits)(d.w[e / per] >> e % per * bits);
	}
}

template <class T, int N> __device__ __forceinline__ Words<N> pack(const typename T::Acc *x) {
	Words<N> d;
#pragma unroll
	for (int i = 0; i < N; i++) {
		if constexpr (sizeof(typename T::Bits) == 8) {
			d.w[i] = (u32)(x[i / 2] >> 32 * (i % 2));
		} else {
			constexpr int bits = 8 * sizeof(typename T::Bits), per = 32 / bits;
			d.w[i] = 0;
#pragma unroll
			for (int e = 0; e < per; e++) d.w[i] |= (u32)x[i * per + e] << e * bits;
		}
	}
	return d;
}

// begin, combine and finish reduce a vector of 4·N bytes.
template <class T, int N> __device__ __forceinline__ void begin(u32 op, typename T::Acc *acc, Words<N> d) {
	constexpr int V = 4 * N / sizeof(typename T::Bits);
	bool order = op == opMin || op == opMax;
#pragma unroll
	for (int e = 0; e < V; e++) acc[e] = order ? element<T, N>(d, e) : T::wide(element<T, N>(d, e));
}

template <class T, int N> __device__ __forceinline__ void combine(u32 op, typename T::Acc *acc, Words<N> d) {
	constexpr int V = 4 * N / sizeof(typename T::Bits);
	if (op == opSum || op == opAvg) {
#pragma unroll
		for (int e = 0; e < V; e++) acc[e] = T::add(acc[e], element<T, N>(d, e));
	} else if (op == opProd) {
#pragma unroll
		for (int e = 0; e < V; e++) acc[e] = T::mul(acc[e], element<T, N>(d, e));
	} else {
#pragma unroll
		for (int e = 0; e < V; e++) acc[e] = T::order(acc[e], element<T, N>(d, e), op == opMax);
	}
}

template <class T, int N> __device__ __forceinline__ Words<N> finish(u32 op, u32 contributions, typename T::Acc *acc) {
	constexpr int V = 4 * N / sizeof(typename T::Bits);
	if (op == opAvg) {
#pragma unroll
		for (int e = 0; e < V; e++) acc[e] = T::average(acc[e], contributions);
	} else if (op == opSum || op == opProd) {
#pragma unroll
		for (int e = 0; e < V; e++) acc[e] = T::narrow(acc[e]);
	}
	return pack<T, N>(acc);
}
