package kernels

// parts is a complex number in memory, of two float32 or two float64.
type parts[F float32 | float64] struct{ re, im F }

// complexProd2 sets dst to a · b, by the four products of the parts. Either
// source may be the same memory as dst. The conversions to F round each step to
// F, as Go would be free not to do: it may fuse a product with a sum, and does
// on some processors.
func complexProd2[F float32 | float64](dst, a, b []parts[F]) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		x, y := a[i], b[i]
		dst[i] = parts[F]{
			F(F(x.re*y.re) - F(x.im*y.im)),
			F(F(x.re*y.im) + F(x.im*y.re)),
		}
	}
}
