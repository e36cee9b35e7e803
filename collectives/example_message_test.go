package collectives_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/weft-go/weft/collectives"
	"github.com/weft-go/weft/comm"
)

// ranks runs a program on n ranks of this process and prints its errors.
func ranks(n int, program func(ctx context.Context, c *comm.Communicator) error) {
	cs, err := comm.Local(n)
	if err != nil {
		fmt.Println(err)
		return
	}
	var wg sync.WaitGroup
	for _, c := range cs {
		wg.Go(func() {
			defer c.Close()
			if err := program(context.Background(), c); err != nil {
				fmt.Println(err)
			}
		})
	}
	wg.Wait()
}

func ExampleSend() {
	ranks(2, func(ctx context.Context, c *comm.Communicator) error {
		if c.Rank() == 0 {
			return collectives.Send(ctx, c, []float32{1, 2, 3}, 1, 7)
		}
		buf := make([]float32, 10)
		s, err := collectives.Recv(ctx, c, buf, 0, 7)
		fmt.Println(buf[:s.Count], "from", s.Source, "tag", s.Tag)
		return err
	})
	// Output: [1 2 3] from 0 tag 7
}

func ExampleRecv() {
	ranks(3, func(ctx context.Context, c *comm.Communicator) error {
		if c.Rank() > 0 {
			return collectives.Send(ctx, c, []int{c.Rank() * 10}, 0, c.Rank())
		}
		sum, buf := 0, make([]int, 1)
		for range c.Size() - 1 { // whoever is first
			if _, err := collectives.Recv(ctx, c, buf, collectives.AnySource, collectives.AnyTag); err != nil {
				return err
			}
			sum += buf[0]
		}
		fmt.Println(sum)
		return nil
	})
	// Output: 30
}

func ExampleSendRecv() {
	ranks(4, func(ctx context.Context, c *comm.Communicator) error {
		left, right := (c.Rank()+3)%4, (c.Rank()+1)%4
		got := make([]int, 1)
		if _, err := collectives.SendRecv(ctx, c, got, left, 0, []int{c.Rank()}, right, 0); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println("round the ring:", got[0])
		}
		return nil
	})
	// Output: round the ring: 3
}

func ExampleStartRecv() {
	ranks(2, func(ctx context.Context, c *comm.Communicator) error {
		peer := 1 - c.Rank()
		theirs, mine := make([]int, 3), []int{c.Rank(), c.Rank(), c.Rank()}
		r := collectives.StartRecv(ctx, c, theirs, peer, 0)
		s := collectives.StartSend(ctx, c, mine, peer, 0)
		// Compute what does not need theirs.
		if err := collectives.WaitAll(ctx, r, s); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println(theirs, r.Status().Count)
		}
		return nil
	})
	// Output: [1 1 1] 3
}
