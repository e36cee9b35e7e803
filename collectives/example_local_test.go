package collectives_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/weft-go/weft/collectives"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// onRanks calls f on n ranks, each a goroutine of this process. In a job of
// processes every one of them has its own communicator, from comm.Init.
func onRanks(n int, f func(ctx context.Context, c *comm.Communicator) error) {
	cs, err := comm.Local(n)
	if err != nil {
		log.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, c := range cs {
		wg.Go(func() {
			defer c.Close()
			if err := f(context.Background(), c); err != nil {
				c.Abort(err) // so that nobody waits for this rank
				log.Print(err)
			}
		})
	}
	wg.Wait()
}

// All ranks call the same. The other examples use the function onRanks of this
// one.
func Example() {
	onRanks(3, func(ctx context.Context, c *comm.Communicator) error {
		x := []float64{1, float64(c.Rank())}
		if err := collectives.AllReduce(ctx, c, x, x, kernels.Sum); err != nil { // in place
			return err
		}
		if c.Rank() == 0 {
			fmt.Println(x)
		}
		return nil
	})
	// Output: [3 3]
}
