package kernels_test

import (
	"fmt"

	"github.com/weft-go/weft/kernels"
)

func ExampleReduceSlices() {
	type metres float32
	a := []metres{1, 2, 3}
	b := []metres{10, 20, 30}
	c := []metres{4, 5, 6}

	// The destination may be one of the sources.
	if err := kernels.ReduceSlices(a, kernels.Avg, a, b, c); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(a)
	// Output: [5 9 13]
}

func ExampleAsBFloat16() {
	// Another library keeps its bfloat16 numbers as plain integers.
	raw := []uint16{0x3F80, 0x4000}  // 1 and 2
	more := []uint16{0x3F00, 0xC040} // 0.5 and −3

	sum := kernels.AsBFloat16(raw)
	if err := kernels.ReduceSlices(sum, kernels.Sum, sum, kernels.AsBFloat16(more)); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sum, fmt.Sprintf("%#x", raw))
	// Output: [1.5 -1] [0x3fc0 0xbf80]
}

func ExampleAsFloat8E4M3() {
	// Another library keeps its float8 numbers as bytes.
	raw := []byte{0x38, 0x7E}  // 1 and 448
	more := []byte{0x30, 0x7E} // 0.5 and 448

	sum := kernels.AsFloat8E4M3(raw)
	if err := kernels.ReduceSlices(sum, kernels.Sum, sum, kernels.AsFloat8E4M3(more)); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sum, "(saturated)", fmt.Sprintf("%#x", raw))
	// Output: [1.5 448] (saturated) 0x3c7e
}

func ExampleOp_Supports() {
	fmt.Println(kernels.Prod.Supports(kernels.TypeComplex64), kernels.Max.Supports(kernels.TypeComplex64))

	z := []complex64{1 + 2i}
	fmt.Println(kernels.ReduceSlices(z, kernels.Max, z, z))
	// Output:
	// true false
	// kernels: no such reduction operator: max of complex64
}

func ExampleReduceSlices_minLoc() {
	// Three ranks offer a temperature each; the coldest tells its rank.
	ranks := [][]kernels.Float32Loc{{{Value: 21, Index: 0}}, {{Value: 17, Index: 1}}, {{Value: 17, Index: 2}}}

	coldest := make([]kernels.Float32Loc, 1)
	if err := kernels.ReduceSlices(coldest, kernels.MinLoc, ranks...); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("rank %d: %v degrees\n", coldest[0].Index, coldest[0].Value)
	// Output: rank 1: 17 degrees
}

func ExampleReduceSlices_logical() {
	// Is every rank done, in both of two tasks? Any number but 0 means yes.
	a, b := []int32{1, 5}, []int32{0, 7}

	if err := kernels.ReduceSlices(a, kernels.LogicalAnd, a, b); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(a)
	// Output: [0 1]
}
