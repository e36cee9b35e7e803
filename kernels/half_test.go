package kernels_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/weft-go/weft/kernels"
)

// half lets one test serve both formats.
type half struct {
	name   string
	format *halfFormat
	quiet  uint16
	from   func(float32) uint16
	to     func(uint16) float32
}

var halves = []half{
	{
		"float16", float16Format, 0x0200,
		func(f float32) uint16 { return kernels.Float16FromFloat32(f).Bits() },
		func(b uint16) float32 { return kernels.Float16FromBits(b).Float32() },
	},
	{
		"bfloat16", bfloat16Format, 0x0040,
		func(f float32) uint16 { return kernels.BFloat16FromFloat32(f).Bits() },
		func(b uint16) float32 { return kernels.BFloat16FromBits(b).Float32() },
	},
}

func TestHalfRoundTrip(t *testing.T) {
	for _, h := range halves {
		t.Run(h.name, func(t *testing.T) {
			inf := uint16(len(h.format.positive) - 1)
			for i := range 1 << 16 {
				b := uint16(i)
				f := h.to(b)
				if b&0x7FFF > inf {
					if f == f || h.from(f) != b|h.quiet {
						require.FailNowf(t, "NaN", "%#04x became %v, then %#04x", b, f, h.from(f))
					}
					continue
				}
				want := math.Float32bits(float32(h.format.value(b)))
				if math.Float32bits(f) != want || h.from(f) != b {
					require.FailNowf(t, "number", "%#04x became %v (%#08x, not %#08x), then %#04x",
						b, f, math.Float32bits(f), want, h.from(f))
				}
			}
		})
	}
}

// Between each pair of neighbours: the middle, which goes to the even one, and
// the float32 on either side of it and of the neighbours. The greatest finite
// number has infinity as its neighbour.
func TestHalfRounding(t *testing.T) {
	for _, h := range halves {
		t.Run(h.name, func(t *testing.T) {
			positive := h.format.positive
			for b := range len(positive) - 1 {
				low, high := positive[b], positive[b+1]
				middle := float32((low + high) / 2)
				// The subnormal bfloat16 are subnormal float32, but even there
				// the middle is a float32.
				if float64(middle) != (low+high)/2 {
					require.FailNow(t, "the middle is no float32")
				}
				even := uint16(b + b&1)
				below, above := math.Nextafter32(middle, 0), math.Nextafter32(middle, float32(math.Inf(1)))
				for _, c := range []struct {
					f    float32
					want uint16
				}{
					{float32(low), uint16(b)},
					{math.Nextafter32(float32(low), float32(math.Inf(1))), uint16(b)},
					{below, uint16(b)},
					{middle, even},
					{above, uint16(b + 1)},
					{math.Nextafter32(float32(high), 0), uint16(b + 1)},
					{float32(high), uint16(b + 1)},
				} {
					if h.from(c.f) != c.want || h.from(-c.f) != c.want|0x8000 || h.format.round(float64(c.f)) != c.want {
						require.FailNowf(t, "rounding", "%v (%#08x) became %#04x and %#04x, not %#04x",
							c.f, math.Float32bits(c.f), h.from(c.f), h.from(-c.f), c.want)
					}
				}
			}
		})
	}
}

func TestHalfSpecial(t *testing.T) {
	bits := math.Float32frombits
	for _, c := range []struct {
		name    string
		f       float32
		f16     uint16
		bf16    uint16
		f16text string
	}{
		{"zero", 0, 0x0000, 0x0000, "0"},
		{"negative zero", bits(0x80000000), 0x8000, 0x8000, "-0"},
		{"one", 1, 0x3C00, 0x3F80, "1"},
		{"minus two", -2, 0xC000, 0xC000, "-2"},
		{"third", 1.0 / 3, 0x3555, 0x3EAB, "0.33325195"},
		{"greatest float16", 65504, 0x7BFF, 0x4780, "65504"},
		{"just below overflow", 65519.996, 0x7BFF, 0x4780, "65504"},
		{"overflow", 65520, 0x7C00, 0x4780, "+Inf"},
		{"far overflow", -1e30, 0xFC00, 0xF14A, "-Inf"},
		{"greatest float32", math.MaxFloat32, 0x7C00, 0x7F80, "+Inf"},
		{"infinity", float32(math.Inf(1)), 0x7C00, 0x7F80, "+Inf"},
		{"least normal", 0x1p-14, 0x0400, 0x3880, "6.1035156e-05"},
		{"least subnormal", 0x1p-24, 0x0001, 0x3380, "5.9604645e-08"},
		{"half of it", 0x1p-25, 0x0000, 0x3300, "0"},
		{"more than half of it", bits(0x33000001), 0x0001, 0x3300, "5.9604645e-08"},
		{"least float32", -math.SmallestNonzeroFloat32, 0x8000, 0x8000, "-0"},
		{"NaN", bits(0x7FC00000), 0x7E00, 0x7FC0, "NaN"},
		{"NaN of low payload", bits(0x7F800001), 0x7E00, 0x7FC0, "NaN"},
		{"NaN of all ones", bits(0xFFFFFFFF), 0xFFFF, 0xFFFF, "NaN"},
		{"NaN with a payload", bits(0xFFA54321), 0xFF2A, 0xFFE5, "NaN"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, b := kernels.Float16FromFloat32(c.f), kernels.BFloat16FromFloat32(c.f)
			require.Equal(t, c.f16, h.Bits(), "%#04x", h.Bits())
			require.Equal(t, c.bf16, b.Bits(), "%#04x", b.Bits())
			require.Equal(t, c.f16text, h.String())
			require.Equal(t, kernels.Float16FromBits(c.f16), h)
			require.Equal(t, kernels.BFloat16FromBits(c.bf16), b)
		})
	}
	require.Equal(t, "1.5", kernels.BFloat16FromFloat32(1.5).String())
}
