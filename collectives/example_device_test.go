package collectives_test

import (
	"context"
	"log"

	"github.com/weft-go/weft/collectives"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// A sum over GPUs, put on a stream of the library that computes.
func ExampleAllReduceDevice() {
	ctx := context.Background()
	c, err := comm.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	const count = 1 << 20
	gradients, err := comm.AllocDevice(ctx, c, 4*count) // or comm.Register, or any memory of this rank's GPU
	if err != nil {
		log.Fatal(err)
	}
	var stream uintptr // a CUstream or cudaStream_t
	buf := collectives.DeviceSliceOf[float32](gradients.Ptr(), count)
	if err := collectives.AllReduceDevice(c, buf, buf, kernels.Avg, stream); err != nil {
		log.Fatal(err)
	}
	// What comes next on the stream finds the averages. Now and then:
	if err := c.AsyncErr(); err != nil {
		log.Fatal(err)
	}
}
