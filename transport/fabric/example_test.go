package fabric_test

import (
	"context"
	"fmt"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric"
)

// Two ranks of one process. Rank 1 puts a message into rank 0's endpoint, one step
// of the fabric at a time, and forgets the fence that rank 0 needs.
func Example() {
	ctx := context.Background()
	var ranks [2]*fabric.Transport
	for r := range ranks {
		f, err := fabric.NewLocal(fabric.WithRank(r), fabric.WithMode(fabric.ModeStrict), fabric.WithSteps(), fabric.WithSeed(2))
		if err != nil {
			fmt.Println(err)
			return
		}
		defer f.Close()
		ranks[r] = f
	}

	// Rank 0: memory behind an endpoint.
	memory, _ := ranks[0].Alloc(4096)
	endpoint, _ := ranks[0].Create(transport.EndpointConfig{Size: 4096, Counted: true})
	_ = endpoint.Ready(ctx)
	_ = endpoint.Bind(0, memory)
	view, _ := ranks[0].View(memory)
	handle, _ := endpoint.Export() // travels over a control channel

	// Rank 1: a counted put of 32 bytes at 1024; the counter is at 0.
	peer, err := ranks[1].Import(handle)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = peer.Ready(ctx)
	done, _ := ranks[1].NewCompletion(1)
	message := []byte("thirty-two bytes: two units, hm.")
	_ = ranks[1].PutCounted(done, transport.Handle{ID: peer.ID(), Offset: 1024}, message, 0)
	_ = done.Submit()
	_ = done.Arrive()
	for ranks[1].Step() {
		reached, _ := view.Counter(0, 32)
		fmt.Printf("counter %d, reached %v, phase done %v\n", memory.Load(0), reached, done.Test())
	}
	report, _ := done.Report()
	fmt.Println("report:", report)

	got := make([]byte, 32)
	fmt.Println(view.Read(got, 1024))
	ranks[0].Fence(transport.FenceAcquire)
	fmt.Println(view.Read(got, 1024), string(got))
	// Output:
	// counter 16, reached false, phase done false
	// counter 32, reached true, phase done true
	// report: clean
	// fabric: read by pointer: rule missing-acquire (4.18.9): rank 0, peer 1, 16 bytes at 1024: what happens is undefined
	// <nil> thirty-two bytes: two units, hm.
}
