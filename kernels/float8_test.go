package kernels_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/weft-go/weft/kernels"
)

// eighth lets one test serve both formats.
type eighth struct {
	name   string
	format *byteFormat
	from   func(float32) uint8
	to     func(uint8) float32
	text   func(uint8) string
}

var eighths = []eighth{
	{
		"e4m3", e4m3Format,
		func(f float32) uint8 { return kernels.Float8E4M3FromFloat32(f).Bits() },
		func(b uint8) float32 { return kernels.Float8E4M3FromBits(b).Float32() },
		func(b uint8) string { return kernels.Float8E4M3FromBits(b).String() },
	},
	{
		"e5m2", e5m2Format,
		func(f float32) uint8 { return kernels.Float8E5M2FromFloat32(f).Bits() },
		func(b uint8) float32 { return kernels.Float8E5M2FromBits(b).Float32() },
		func(b uint8) string { return kernels.Float8E5M2FromBits(b).String() },
	},
}

func TestFloat8RoundTrip(t *testing.T) {
	for _, h := range eighths {
		t.Run(h.name, func(t *testing.T) {
			for i := range 1 << 8 {
				b := uint8(i)
				got, want := h.to(b), h.format.value(b)
				switch {
				case want != want:
					require.EqualValues(t, 0x7FFFFFFF, math.Float32bits(got), "%#02x", b)
					require.EqualValues(t, 0x7F, h.from(got), "%#02x", b)
					require.Equal(t, "NaN", h.text(b))
				case math.IsInf(want, 0): // saturates
					require.Equal(t, float32(want), got)
					require.Equal(t, b-1, h.from(got))
				default:
					require.Equal(t, math.Float32bits(float32(want)), math.Float32bits(got), "%#02x", b)
					require.Equal(t, b, h.from(got))
				}
			}
		})
	}
}

// All float32 of 7 fraction bits, which has the middles of all neighbours, and
// those on either side of each.
func TestFloat8Rounding(t *testing.T) {
	for _, h := range eighths {
		t.Run(h.name, func(t *testing.T) {
			for upper := range uint32(1 << 16) {
				for _, lower := range []uint32{0, 1, 0x7FFF, 0x8000, 0xFFFF} {
					f := math.Float32frombits(upper<<16 | lower)
					if got, want := h.from(f), h.format.round(float64(f)); got != want {
						require.FailNowf(t, "rounding", "%v (%#08x) became %#02x, not %#02x", f, math.Float32bits(f), got, want)
					}
				}
			}
		})
	}
}

func TestFloat8Special(t *testing.T) {
	bits := math.Float32frombits
	for _, c := range []struct {
		name string
		f    float32
		e4m3 uint8
		e5m2 uint8
		text string // of the e4m3
	}{
		{"zero", 0, 0x00, 0x00, "0"},
		{"negative zero", bits(0x80000000), 0x80, 0x80, "-0"},
		{"one", 1, 0x38, 0x3C, "1"},
		{"minus two", -2, 0xC0, 0xC0, "-2"},
		{"third", 1.0 / 3, 0x2B, 0x35, "0.34375"},
		{"tie to even, down", 1.0625, 0x38, 0x3C, "1"},
		{"tie to even, up", 1.1875, 0x3A, 0x3D, "1.25"},
		{"greatest e4m3", 448, 0x7E, 0x5F, "448"},
		{"beyond it by half a unit", 464, 0x7E, 0x5F, "448"},
		{"beyond it by a unit", -480, 0xFE, 0xE0, "-448"},
		{"greatest e5m2", 57344, 0x7E, 0x7B, "448"},
		{"beyond it by half a unit, e5m2", 61440, 0x7E, 0x7B, "448"},
		{"far beyond", -math.MaxFloat32, 0xFE, 0xFB, "-448"},
		{"infinity", float32(math.Inf(-1)), 0xFE, 0xFB, "-448"},
		{"least normal e4m3", 0x1p-6, 0x08, 0x24, "0.015625"},
		{"least e4m3", 0x1p-9, 0x01, 0x18, "0.001953125"},
		{"half of it", 0x1p-10, 0x00, 0x14, "0"},
		{"more than half of it", 0x1.8p-10, 0x01, 0x16, "0.001953125"},
		{"least e5m2", 0x1p-16, 0x00, 0x01, "0"},
		{"half of it, e5m2", -0x1p-17, 0x80, 0x80, "-0"},
		{"least float32", math.SmallestNonzeroFloat32, 0x00, 0x00, "0"},
		{"NaN", bits(0x7FC00000), 0x7F, 0x7F, "NaN"},
		{"negative NaN", bits(0xFF800001), 0x7F, 0x7F, "NaN"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, y := kernels.Float8E4M3FromFloat32(c.f), kernels.Float8E5M2FromFloat32(c.f)
			require.Equal(t, c.e4m3, x.Bits(), "%#02x", x.Bits())
			require.Equal(t, c.e5m2, y.Bits(), "%#02x", y.Bits())
			require.Equal(t, c.text, x.String())
			require.Equal(t, kernels.Float8E4M3FromBits(c.e4m3), x)
			require.Equal(t, kernels.Float8E5M2FromBits(c.e5m2), y)
		})
	}
	require.Equal(t, "57344", kernels.Float8E5M2FromBits(0x7B).String())
	require.Equal(t, "-Inf", kernels.Float8E5M2FromBits(0xFC).String())
}
