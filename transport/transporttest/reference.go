package transporttest

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
)

var allTypes = []kernels.Type{
	kernels.TypeInt8, kernels.TypeUint8, kernels.TypeInt16, kernels.TypeUint16, kernels.TypeInt32, kernels.TypeUint32,
	kernels.TypeInt64, kernels.TypeUint64, kernels.TypeFloat16, kernels.TypeBFloat16, kernels.TypeFloat32, kernels.TypeFloat64,
}

var allOps = []transport.RedOp{
	transport.RedAdd, transport.RedMin, transport.RedMax, transport.RedAnd, transport.RedOr, transport.RedXor,
	transport.AtomExch, transport.AtomCAS,
}

// isFloat says whether elements of type t are floating-point numbers.
func isFloat(t kernels.Type) bool {
	switch t {
	case kernels.TypeFloat16, kernels.TypeBFloat16, kernels.TypeFloat32, kernels.TypeFloat64:
		return true
	}
	return false
}

// elements fills b with elements of type t. Floating-point ones are small whole
// numbers, whose sums are exact in every type and order.
func elements(rng *rand.Rand, b []byte, t kernels.Type) {
	if !isFloat(t) {
		fill(rng, b)
		return
	}
	for o := 0; o < len(b); o += t.Size() {
		storeFloat(b[o:], float64(rng.IntN(41)-20), t)
	}
}

func loadFloat(b []byte, t kernels.Type) float64 {
	switch t {
	case kernels.TypeFloat16:
		return float64(kernels.Float16FromBits(binary.NativeEndian.Uint16(b)).Float32())
	case kernels.TypeBFloat16:
		return float64(kernels.BFloat16FromBits(binary.NativeEndian.Uint16(b)).Float32())
	case kernels.TypeFloat32:
		return float64(math.Float32frombits(binary.NativeEndian.Uint32(b)))
	}
	return math.Float64frombits(binary.NativeEndian.Uint64(b))
}

func storeFloat(b []byte, f float64, t kernels.Type) {
	switch t {
	case kernels.TypeFloat16:
		binary.NativeEndian.PutUint16(b, kernels.Float16FromFloat32(float32(f)).Bits())
	case kernels.TypeBFloat16:
		binary.NativeEndian.PutUint16(b, kernels.BFloat16FromFloat32(float32(f)).Bits())
	case kernels.TypeFloat32:
		binary.NativeEndian.PutUint32(b, math.Float32bits(float32(f)))
	default:
		binary.NativeEndian.PutUint64(b, math.Float64bits(f))
	}
}

// combine is the reference of a reduction: dst[i] = dst[i] op src[i].
func combine(dst, src []byte, op transport.RedOp, t kernels.Type) {
	for o := 0; o < len(src); o += t.Size() {
		d, s := dst[o:o+t.Size()], src[o:o+t.Size()]
		switch {
		case op == transport.RedAnd || op == transport.RedOr || op == transport.RedXor:
			for i := range d {
				switch op {
				case transport.RedAnd:
					d[i] &= s[i]
				case transport.RedOr:
					d[i] |= s[i]
				default:
					d[i] ^= s[i]
				}
			}
		case isFloat(t):
			a, b := loadFloat(d, t), loadFloat(s, t)
			switch op {
			case transport.RedMin:
				a = math.Min(a, b)
			case transport.RedMax:
				a = math.Max(a, b)
			default:
				a += b
			}
			storeFloat(d, a, t)
		default:
			a, b := loadInt(d, t), loadInt(s, t)
			less := a < b
			if t == kernels.TypeUint32 || t == kernels.TypeUint64 {
				less = uint64(a) < uint64(b)
			}
			switch {
			case op == transport.RedAdd:
				a += b
			case op == transport.RedMin && !less, op == transport.RedMax && less:
				a = b
			}
			if t.Size() == 4 {
				binary.NativeEndian.PutUint32(d, uint32(a))
			} else {
				binary.NativeEndian.PutUint64(d, uint64(a))
			}
		}
	}
}

func loadInt(b []byte, t kernels.Type) int64 {
	switch t {
	case kernels.TypeInt32:
		return int64(int32(binary.NativeEndian.Uint32(b)))
	case kernels.TypeUint32:
		return int64(binary.NativeEndian.Uint32(b))
	}
	return int64(binary.NativeEndian.Uint64(b))
}
