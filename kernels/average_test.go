package kernels

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAverage: partial sums, divided by the number of contributions.
func TestAverage(t *testing.T) {
	for n := 1; n <= 9; n++ {
		for parts := 1; parts <= 6; parts++ {
			t.Run(fmt.Sprintf("%d of %d", n, parts), func(t *testing.T) {
				ints, halves := make([][]byte, parts), make([][]byte, parts)
				const count = 1500
				var sum int32
				var real float32
				for p := range parts {
					v, h := make([]int32, count), make([]Float16, count)
					for i := range v {
						v[i], h[i] = int32(-100*p-7), Float16FromFloat32(float32(p)+0.25)
					}
					sum += v[0]
					real += h[0].Float32()
					ints[p], halves[p] = Bytes(v), Bytes(h)
				}
				got, half := make([]int32, count), make([]Float16, count)
				require.NoError(t, Average(Bytes(got), ints, TypeInt32, n))
				require.NoError(t, Average(Bytes(half), halves, TypeFloat16, n))
				for i := range got {
					require.Equal(t, sum/int32(n), got[i])
					require.Equal(t, Float16FromFloat32(real/float32(n)), half[i])
				}
			})
		}
	}
	z, dst := []complex64{6 - 1i}, make([]complex64, 1)
	require.NoError(t, Average(Bytes(dst), [][]byte{Bytes(z)}, TypeComplex64, 4))
	require.Equal(t, []complex64{1.5 - 0.25i}, dst)
	e := []Float8E4M3{Float8E4M3FromFloat32(448)}
	require.NoError(t, Average(Bytes(e), [][]byte{Bytes(e), Bytes(e)}, TypeFloat8E4M3, 4))
	require.Equal(t, float32(224), e[0].Float32())
	require.ErrorIs(t, Average(nil, [][]byte{nil}, TypeInt8, 0), ErrOp)
}
