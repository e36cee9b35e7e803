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
