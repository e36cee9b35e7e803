package kernels

import "testing"

// The fuzz targets of this file, one for each kind of kernels, cut data into
// sources and hold the tiers against plain Go.

func FuzzVectorIntegers(f *testing.F) {
	fuzzVector(f, TypeInt8, TypeInt16, TypeInt32, TypeInt64, TypeUint8, TypeUint16, TypeUint32, TypeUint64)
}

func FuzzVectorFloats(f *testing.F)    { fuzzVector(f, TypeFloat32, TypeFloat64) }
func FuzzVectorHalves(f *testing.F)    { fuzzVector(f, TypeFloat16, TypeBFloat16) }
func FuzzVectorFloat8s(f *testing.F)   { fuzzVector(f, TypeFloat8E4M3, TypeFloat8E5M2) }
func FuzzVectorComplexes(f *testing.F) { fuzzVector(f, TypeComplex64, TypeComplex128) }

func fuzzVector(f *testing.F, kind ...Type) {
	special := []byte("\x00\x80\x7f\xff\x80\x7f\x00\x7c\x01\x00\xf0\x7f\x00\x00\x80\xff0123456789abcdef")
	data := make([]byte, 0, 20*len(special))
	for i := range 20 {
		data = append(append(data, special[i:]...), special[:i]...)
	}
	for i := range kind {
		for op := Sum; op <= BitXor; op++ {
			f.Add(data, uint8(i), uint8(op), uint8(2+op%4), uint8(op), uint16(i*77+int(op)), uint8(0))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, which, operator, sources, alias uint8, places uint16, by uint8) {
		typ, op := kind[int(which)%len(kind)], Op(operator)
		if !op.Supports(typ) {
			return
		}
		k := 1 + int(sources)%mostSources
		n := len(data) / (k + 1) / typ.Size()
		if n > 4096 {
			n = 4096
		}
		size := n * typ.Size()
		place := func(i int) int { return (int(places) + (i+1)*int(places>>6)) * typ.Align() & 63 }
		p := newTwins(size)
		for _, a := range []*arena{p.got, p.want} {
			a.lay(k, size, uint(alias), place)
			copy(a.dst, data)
			for i, src := range a.srcs {
				copy(src, data[min(i+1, k)*size:])
			}
		}
		divisor := divisor(op, k)
		if op == Avg && by > 0 {
			divisor = int(by)
		}
		for _, with := range vectorTiers() {
			p.check(t, with, typ, op, k, n, uint(alias), place, divisor)
			copy(p.got.memory, p.want.memory)
		}
	})
}
