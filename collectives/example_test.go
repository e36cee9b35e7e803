package collectives_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weft-go/weft/collectives"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

func ExampleAllReduce() {
	onRanks(3, func(ctx context.Context, c *comm.Communicator) error {
		src := []int{c.Rank(), 10 * c.Rank()}
		dst := make([]int, 2)
		if err := collectives.AllReduce(ctx, c, dst, src, kernels.Sum); err != nil {
			return err
		}
		fmt.Println("rank", c.Rank(), dst)
		return nil
	})
	// Unordered output:
	// rank 0 [3 30]
	// rank 1 [3 30]
	// rank 2 [3 30]
}

// The operator makes one sentence of two. It does not commute: words stay in the
// order of the ranks.
func ExampleAllReduceFunc() {
	onRanks(4, func(ctx context.Context, c *comm.Communicator) error {
		type sentence [12]byte // without pointers
		words := []string{"one", "for", "all", "!"}
		s := make([]sentence, 1)
		copy(s[0][:], words[c.Rank()])
		join := func(acc, x []sentence) {
			for i := range acc {
				n := len(bytes.TrimRight(acc[i][:], "\x00"))
				copy(acc[i][n:], x[i][:])
			}
		}
		if err := collectives.AllReduceFunc(ctx, c, s, s, join); err != nil {
			return err
		}
		if c.Rank() == 3 {
			fmt.Println(string(bytes.TrimRight(s[0][:], "\x00")))
		}
		return nil
	})
	// Output:
	// oneforall!
}

// Where is the least number?
func ExampleAllReduce_minLoc() {
	onRanks(3, func(ctx context.Context, c *comm.Communicator) error {
		x := []kernels.Float64Loc{{Value: []float64{7, 3, 5}[c.Rank()], Index: int64(c.Rank())}}
		if err := collectives.AllReduce(ctx, c, x, x, kernels.MinLoc); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println(x[0].Value, "on rank", x[0].Index)
		}
		return nil
	})
	// Output:
	// 3 on rank 1
}

// The program computes while the call goes on.
func ExampleStartAllReduce() {
	onRanks(2, func(ctx context.Context, c *comm.Communicator) error {
		x := []int{1, 2, 3}
		request := collectives.StartAllReduce(ctx, c, x, x, kernels.Sum)
		own := c.Rank() * 100 // something that needs no result
		if err := request.Wait(ctx); err != nil {
			return err
		}
		fmt.Println(own + x[2])
		return nil
	})
	// Unordered output:
	// 6
	// 106
}

// The call is set up once and made many times, on what is in the slices then.
func ExampleNewAllReduce() {
	onRanks(2, func(ctx context.Context, c *comm.Communicator) error {
		x := []int{1}
		sum, err := collectives.NewAllReduce(c, x, x, kernels.Sum)
		if err != nil {
			return err
		}
		for range 4 {
			if err := sum.Run(ctx); err != nil {
				return err
			}
		}
		if c.Rank() == 0 {
			fmt.Println(x)
		}
		return nil
	})
	// Output:
	// [16]
}

// Only the root has the result.
func ExampleReduce() {
	onRanks(3, func(ctx context.Context, c *comm.Communicator) error {
		var max []int
		if c.Rank() == 1 {
			max = make([]int, 2)
		}
		src := []int{c.Rank(), -c.Rank()}
		if err := collectives.Reduce(ctx, c, max, src, kernels.Max, 1); err != nil {
			return err
		}
		if c.Rank() == 1 {
			fmt.Println(max)
		}
		return nil
	})
	// Output:
	// [2 0]
}

// Sums of structs.
func ExampleReduceFunc() {
	onRanks(3, func(ctx context.Context, c *comm.Communicator) error {
		type account struct {
			Items  int32
			Amount float64
		}
		src := []account{{Items: 1, Amount: 2.5}}
		dst := make([]account, 1)
		add := func(acc, x []account) {
			for i := range acc {
				acc[i].Items += x[i].Items
				acc[i].Amount += x[i].Amount
			}
		}
		if err := collectives.ReduceFunc(ctx, c, dst, src, add, 0); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println(dst)
		}
		return nil
	})
	// Output:
	// [{3 7.5}]
}

func ExampleBroadcast() {
	onRanks(3, func(ctx context.Context, c *comm.Communicator) error {
		buf := make([]int, 3)
		if c.Rank() == 2 {
			copy(buf, []int{4, 5, 6})
		}
		if err := collectives.Broadcast(ctx, c, buf, 2); err != nil {
			return err
		}
		fmt.Println("rank", c.Rank(), buf)
		return nil
	})
	// Unordered output:
	// rank 0 [4 5 6]
	// rank 1 [4 5 6]
	// rank 2 [4 5 6]
}

// What is only moved may be of any type without pointers.
func ExampleBroadcast_structs() {
	onRanks(2, func(ctx context.Context, c *comm.Communicator) error {
		type settings struct {
			Rate  float32
			Name  [8]byte
			Debug bool
		}
		s := make([]settings, 1)
		if c.Rank() == 0 {
			s[0] = settings{Rate: 0.5, Debug: true}
			copy(s[0].Name[:], "weft")
		}
		if err := collectives.Broadcast(ctx, c, s, 0); err != nil {
			return err
		}
		if c.Rank() == 1 {
			fmt.Println(s[0].Rate, string(s[0].Name[:4]), s[0].Debug)
		}
		return nil
	})
	// Output:
	// 0.5 weft true
}

func ExampleAllGather() {
	onRanks(3, func(ctx context.Context, c *comm.Communicator) error {
		src := []string{"a", "bc", "def"}[c.Rank()]
		lengths := make([]int, c.Size())
		if err := collectives.AllGather(ctx, c, lengths, []int{len(src)}); err != nil {
			return err
		}
		fmt.Println("rank", c.Rank(), lengths)
		return nil
	})
	// Unordered output:
	// rank 0 [1 2 3]
	// rank 1 [1 2 3]
	// rank 2 [1 2 3]
}

// All ranks learn what each has to say: first how long it is, then what.
func ExampleAllGatherV() {
	onRanks(3, func(ctx context.Context, c *comm.Communicator) error {
		src := []byte([]string{"to ", "", "gether"}[c.Rank()])
		counts := make([]int, c.Size())
		if err := collectives.AllGather(ctx, c, counts, []int{len(src)}); err != nil {
			return err
		}
		total := 0
		for _, n := range counts {
			total += n
		}
		dst := make([]byte, total)
		if err := collectives.AllGatherV(ctx, c, dst, counts, src); err != nil {
			return err
		}
		if c.Rank() == 1 {
			fmt.Println(string(dst))
		}
		return nil
	})
	// Output:
	// to gether
}

// Rows become columns.
func ExampleAllToAll() {
	onRanks(3, func(ctx context.Context, c *comm.Communicator) error {
		r := 10 * c.Rank()
		src := []int{r, r + 1, r + 2} // one for each rank
		dst := make([]int, 3)
		if err := collectives.AllToAll(ctx, c, dst, src); err != nil {
			return err
		}
		fmt.Println("rank", c.Rank(), dst)
		return nil
	})
	// Unordered output:
	// rank 0 [0 10 20]
	// rank 1 [1 11 21]
	// rank 2 [2 12 22]
}

// Rank 0 keeps one number and sends two; rank 1 sends one and keeps none.
func ExampleAllToAllV() {
	onRanks(2, func(ctx context.Context, c *comm.Communicator) error {
		src := [][]int{{1, 2, 3}, {4}}[c.Rank()]
		srcCounts := [][]int{{1, 2}, {1, 0}}[c.Rank()]
		dstCounts := make([]int, 2)
		if err := collectives.AllToAll(ctx, c, dstCounts, srcCounts); err != nil {
			return err
		}
		dst := make([]int, dstCounts[0]+dstCounts[1])
		if err := collectives.AllToAllV(ctx, c, dst, dstCounts, src, srcCounts); err != nil {
			return err
		}
		fmt.Println("rank", c.Rank(), dst)
		return nil
	})
	// Unordered output:
	// rank 0 [1 4]
	// rank 1 [2 3]
}

func ExampleGather() {
	onRanks(3, func(ctx context.Context, c *comm.Communicator) error {
		var dst []rune // only the root needs one
		if c.Rank() == 0 {
			dst = make([]rune, c.Size())
		}
		src := []rune{'a' + rune(c.Rank())}
		if err := collectives.Gather(ctx, c, dst, src, 0); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println(string(dst))
		}
		return nil
	})
	// Output:
	// abc
}

// Rank r has r numbers.
func ExampleGatherV() {
	onRanks(4, func(ctx context.Context, c *comm.Communicator) error {
		src := make([]int, c.Rank())
		for i := range src {
			src[i] = c.Rank()
		}
		var dst, counts []int // only the root needs them
		if c.Rank() == 0 {
			counts = []int{0, 1, 2, 3}
			dst = make([]int, 6)
		}
		if err := collectives.GatherV(ctx, c, dst, counts, src, 0); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println(dst)
		}
		return nil
	})
	// Output:
	// [1 2 2 3 3 3]
}

func ExampleScatter() {
	onRanks(3, func(ctx context.Context, c *comm.Communicator) error {
		var src []int // only the root needs one
		if c.Rank() == 0 {
			src = []int{1, 2, 3, 4, 5, 6}
		}
		dst := make([]int, 2)
		if err := collectives.Scatter(ctx, c, dst, src, 0); err != nil {
			return err
		}
		fmt.Println("rank", c.Rank(), dst)
		return nil
	})
	// Unordered output:
	// rank 0 [1 2]
	// rank 1 [3 4]
	// rank 2 [5 6]
}

// Work is divided: rank 0 has the least of it.
func ExampleScatterV() {
	onRanks(3, func(ctx context.Context, c *comm.Communicator) error {
		var src, counts []int // only the root needs them
		if c.Rank() == 0 {
			src, counts = []int{1, 2, 3, 4, 5, 6, 7}, []int{1, 3, 3}
		}
		dst := make([]int, []int{1, 3, 3}[c.Rank()])
		if err := collectives.ScatterV(ctx, c, dst, src, counts, 0); err != nil {
			return err
		}
		fmt.Println("rank", c.Rank(), dst)
		return nil
	})
	// Unordered output:
	// rank 0 [1]
	// rank 1 [2 3 4]
	// rank 2 [5 6 7]
}

func ExampleReduceScatter() {
	onRanks(2, func(ctx context.Context, c *comm.Communicator) error {
		src := []int{1, 2, 3, 4, 5}
		counts := []int{2, 3}
		dst := make([]int, counts[c.Rank()])
		if err := collectives.ReduceScatter(ctx, c, dst, src, counts, kernels.Sum); err != nil {
			return err
		}
		fmt.Println("rank", c.Rank(), dst)
		return nil
	})
	// Unordered output:
	// rank 0 [2 4]
	// rank 1 [6 8 10]
}

// With an AllGather of what each rank has changed in its part, this is how an
// optimizer that is divided among the ranks works.
func ExampleReduceScatterBlock() {
	onRanks(2, func(ctx context.Context, c *comm.Communicator) error {
		gradients := []float32{1, 2, 3, float32(c.Rank())}
		mine := make([]float32, 2)
		if err := collectives.ReduceScatterBlock(ctx, c, mine, gradients, kernels.Avg); err != nil {
			return err
		}
		fmt.Println("rank", c.Rank(), mine)
		return nil
	})
	// Unordered output:
	// rank 0 [1 2]
	// rank 1 [3 0.5]
}

// The greatest common divisor is an operator that package kernels has not.
func ExampleReduceScatterFunc() {
	onRanks(2, func(ctx context.Context, c *comm.Communicator) error {
		gcd := func(acc, x []uint32) {
			for i, b := range x {
				for a := acc[i]; ; a, b = b, a%b {
					if acc[i] = a; b == 0 {
						break
					}
				}
			}
		}
		src := [][]uint32{{12, 35, 9}, {18, 21, 6}}[c.Rank()]
		counts := []int{2, 1}
		dst := make([]uint32, counts[c.Rank()])
		if err := collectives.ReduceScatterFunc(ctx, c, dst, src, counts, gcd); err != nil {
			return err
		}
		fmt.Println("rank", c.Rank(), dst)
		return nil
	})
	// Unordered output:
	// rank 0 [6 7]
	// rank 1 [3]
}

// Each rank has opinions of its own, 0 being none: of the ranks that have one, the
// highest wins.
func ExampleReduceScatterBlockFunc() {
	onRanks(2, func(ctx context.Context, c *comm.Communicator) error {
		last := func(acc, x []int) {
			for i := range acc {
				if x[i] != 0 {
					acc[i] = x[i]
				}
			}
		}
		src := [][]int{{1, 2}, {0, 3}}[c.Rank()]
		dst := make([]int, 1)
		if err := collectives.ReduceScatterBlockFunc(ctx, c, dst, src, last); err != nil {
			return err
		}
		fmt.Println("rank", c.Rank(), dst)
		return nil
	})
	// Unordered output:
	// rank 0 [1]
	// rank 1 [3]
}

func ExampleScan() {
	onRanks(3, func(ctx context.Context, c *comm.Communicator) error {
		src := []int{1, c.Rank()}
		dst := make([]int, 2)
		if err := collectives.Scan(ctx, c, dst, src, kernels.Sum); err != nil {
			return err
		}
		fmt.Println("rank", c.Rank(), dst)
		return nil
	})
	// Unordered output:
	// rank 0 [1 0]
	// rank 1 [2 1]
	// rank 2 [3 3]
}

// Each rank has a map x → A·x + B; the result is all of them so far, one after
// the other.
func ExampleScanFunc() {
	onRanks(3, func(ctx context.Context, c *comm.Communicator) error {
		type affine struct{ A, B int }
		maps := []affine{{A: 2, B: c.Rank()}}
		then := func(acc, x []affine) {
			for i := range acc {
				acc[i] = affine{x[i].A * acc[i].A, x[i].A*acc[i].B + x[i].B}
			}
		}
		if err := collectives.ScanFunc(ctx, c, maps, maps, then); err != nil {
			return err
		}
		fmt.Println("rank", c.Rank(), maps)
		return nil
	})
	// Unordered output:
	// rank 0 [{2 0}]
	// rank 1 [{4 1}]
	// rank 2 [{8 4}]
}

// Where each rank's part of a file begins.
func ExampleExscan() {
	onRanks(3, func(ctx context.Context, c *comm.Communicator) error {
		length := []int64{int64(100 * (c.Rank() + 1))}
		begin := make([]int64, 1) // rank 0's stays as it is
		if err := collectives.Exscan(ctx, c, begin, length, kernels.Sum); err != nil {
			return err
		}
		fmt.Println("rank", c.Rank(), "begins at", begin[0])
		return nil
	})
	// Unordered output:
	// rank 0 begins at 0
	// rank 1 begins at 100
	// rank 2 begins at 300
}

// The last rank before this one that has something.
func ExampleExscanFunc() {
	onRanks(4, func(ctx context.Context, c *comm.Communicator) error {
		type found struct {
			OK   bool
			Rank int
		}
		mine := []found{{OK: c.Rank()%2 == 0, Rank: c.Rank()}}
		before := make([]found, 1)
		last := func(acc, x []found) {
			for i := range acc {
				if x[i].OK {
					acc[i] = x[i]
				}
			}
		}
		if err := collectives.ExscanFunc(ctx, c, before, mine, last); err != nil {
			return err
		}
		fmt.Println("rank", c.Rank(), before)
		return nil
	})
	// Unordered output:
	// rank 0 [{false 0}]
	// rank 1 [{true 0}]
	// rank 2 [{true 0}]
	// rank 3 [{true 2}]
}

// Nobody is late when all have arrived.
func ExampleBarrier() {
	var arrived atomic.Int32
	onRanks(4, func(ctx context.Context, c *comm.Communicator) error {
		arrived.Add(1)
		if err := collectives.Barrier(ctx, c); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println(arrived.Load(), "have arrived")
		}
		return nil
	})
	// Output:
	// 4 have arrived
}

// Several calls that were started run in the order of their start.
func ExampleWaitAll() {
	onRanks(2, func(ctx context.Context, c *comm.Communicator) error {
		counts, sizes := []int32{1}, []float64{0.5}
		err := collectives.WaitAll(ctx,
			collectives.StartAllReduce(ctx, c, counts, counts, kernels.Sum),
			collectives.StartAllReduce(ctx, c, sizes, sizes, kernels.Sum))
		if err != nil {
			return err
		}
		if c.Rank() == 1 {
			fmt.Println(counts, sizes)
		}
		return nil
	})
	// Output:
	// [2] [1]
}

// Many small calls, with few messages.
func ExampleGroup() {
	onRanks(2, func(ctx context.Context, c *comm.Communicator) error {
		weights, bias, step := []float32{1, 2}, []float32{float32(c.Rank())}, []int64{7}
		err := collectives.Group(ctx, c, func(g *collectives.GroupCalls) error {
			collectives.AddAllReduce(g, weights, weights, kernels.Sum)
			collectives.AddAllReduce(g, bias, bias, kernels.Avg)
			collectives.AddBroadcast(g, step, 0)
			return nil
		})
		if err != nil {
			return err
		}
		if c.Rank() == 1 {
			fmt.Println(weights, bias, step)
		}
		return nil
	})
	// Output:
	// [2 4] [0.5] [7]
}

// The gradients of all layers, averaged in one call with few messages.
func ExampleAllReduceMany() {
	onRanks(2, func(ctx context.Context, c *comm.Communicator) error {
		r := float32(c.Rank())
		gradients := [][]float32{{1, r}, {r}, {3, 4, 5}}
		if err := collectives.AllReduceMany(ctx, c, gradients, kernels.Avg); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println(gradients)
		}
		return nil
	})
	// Output:
	// [[1 0.5] [0.5] [3 4 5]]
}

// A group that is made in every step of a program.
func ExampleNewGroup() {
	onRanks(2, func(ctx context.Context, c *comm.Communicator) error {
		loss, samples := []float64{0}, []int{0}
		group, err := collectives.NewGroup(c, func(g *collectives.GroupCalls) error {
			collectives.AddAllReduce(g, loss, loss, kernels.Avg)
			collectives.AddAllReduce(g, samples, samples, kernels.Sum)
			return nil
		})
		if err != nil {
			return err
		}
		for step := range 2 {
			loss[0], samples[0] = float64(c.Rank()+step), 32
			if err := group.Run(ctx); err != nil {
				return err
			}
			if c.Rank() == 0 {
				fmt.Println(loss, samples)
			}
		}
		return nil
	})
	// Output:
	// [0.5] [64]
	// [1.5] [64]
}

// A select waits for a call or for something else.
func ExampleRequest_Done() {
	onRanks(2, func(ctx context.Context, c *comm.Communicator) error {
		x := []int{c.Rank()}
		request := collectives.StartBroadcast(ctx, c, x, 1)
		timer := time.NewTicker(time.Minute)
		defer timer.Stop()
		for {
			select {
			case <-request.Done():
				if err := request.Err(); err != nil {
					return err
				}
				fmt.Println(x)
				return nil
			case <-timer.C: // report progress
			}
		}
	})
	// Unordered output:
	// [1]
	// [1]
}
