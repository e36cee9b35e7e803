package device

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/cuda"
	"github.com/weft-go/weft/kernels"
	layout "github.com/weft-go/weft/kernels/cuda"
)

// sum is an AllReduce of float32.
func sum(dst, src Memory, count int, hash uint32) *Call {
	return &Call{Collective: comm.OpAllReduce, Count: count, Type: kernels.TypeFloat32, ElemBytes: 4, Dst: dst, Src: src, To: -1, From: -1, Hash: hash, Seq: 7}
}

// A rank that doesn't come is missed, and named, after the timeout; then all that the others
// enqueue ends at once.
func TestMissingRank(t *testing.T) {
	for _, count := range []int{1, 100000, 1 << 20} {
		r := newRig(t, 3, 100*time.Millisecond)
		dst, src := r.register(t, 4<<20), r.register(t, 4<<20)
		for p := range 2 {
			require.NoError(t, r.groups[p].Enqueue(r.streams[p], sum(dst[p], src[p], count, 1)))
		}
		for p := range 2 {
			require.NoError(t, r.streams[p].Synchronize())
			f := r.groups[p].Failure()
			require.NotNil(t, f)
			if f.Reason == layout.Poisoned { // the other was first
				require.Equal(t, uint32(1-p), f.Peer)
				continue
			}
			require.Equal(t, layout.Timeout, f.Reason)
			require.Equal(t, uint32(2), f.Peer)
			require.Equal(t, uint32(p), f.Rank)
			require.Equal(t, uint32(comm.OpAllReduce), f.Collective)
			require.Equal(t, uint64(7), f.Seq)
			require.Contains(t, []layout.Awaited{layout.AwaitPacket, layout.AwaitHello}, f.Awaited)
		}
		start := time.Now()
		for p := range 3 { // the one that was missing, too, finds that it is over
			for range 10 {
				require.NoError(t, r.groups[p].Enqueue(r.streams[p], sum(dst[p], src[p], count, 1)))
			}
			require.NoError(t, r.streams[p].Synchronize())
			require.NotNil(t, r.groups[p].Failure())
		}
		require.Less(t, time.Since(start), 5*time.Second)
		require.Equal(t, layout.Poisoned, r.groups[2].Failure().Reason)
	}
}

// Calls that differ are found, whichever way they go, and no result is taken for one.
func TestMismatch(t *testing.T) {
	for _, counts := range [][2]int{{3, 4}, {100000, 100001}, {1 << 20, 2 << 20}} {
		r := newRig(t, 2, 2*time.Second)
		dst, src := r.register(t, 8<<20), r.register(t, 8<<20)
		for p := range 2 {
			require.NoError(t, r.groups[p].Enqueue(r.streams[p], sum(dst[p], src[p], counts[p], uint32(counts[p]))))
		}
		mismatches := 0
		for p := range 2 {
			require.NoError(t, r.streams[p].Synchronize())
			f := r.groups[p].Failure()
			require.NotNil(t, f)
			require.Contains(t, []layout.Reason{layout.Mismatch, layout.Poisoned}, f.Reason)
			require.Equal(t, uint32(1-p), f.Peer)
			if f.Reason == layout.Mismatch {
				mismatches++
			}
		}
		require.Positive(t, mismatches)
	}
}

// A block that is longer or shorter than its receiver has room for fails on both, and nothing
// of it is stored.
func TestMismatchOfLengths(t *testing.T) {
	for _, registered := range []bool{true, false} {
		for _, more := range []int{100000, -100000} {
			r := newRig(t, 2, 2*time.Second)
			const block, all = 300000, 1 << 20
			dst, src := r.register(t, all), r.register(t, all)
			for p := range 2 {
				r.upload(t, p, dst[p].Ptr, pattern(all))
				b := &layout.Blocks{}
				for q := range 2 {
					b.SendAt[q], b.SendBytes[q] = uint64(q*block), block
					b.RecvAt[q], b.RecvBytes[q] = uint64(q*block), block
				}
				if p == 0 {
					b.SendBytes[1] = uint64(block + more)
				}
				require.NoError(t, r.groups[p].Enqueue(r.streams[p], &Call{Collective: comm.OpAllToAllV, Type: kernels.TypeUint8, ElemBytes: 1,
					Dst: dst[p].within(0, registered), Src: src[p].within(0, registered), Blocks: b, To: -1, From: -1}))
			}
			for p := range 2 {
				require.NoError(t, r.streams[p].Synchronize())
				f := r.groups[p].Failure()
				require.NotNil(t, f)
				require.Contains(t, []layout.Reason{layout.Mismatch, layout.Poisoned}, f.Reason)
				// Its own block may be there.
				got := r.download(t, p, dst[p].Ptr, all)
				copy(got[p*block:(p+1)*block], pattern(block))
				require.True(t, string(got) == string(pattern(all)), "rank %d was written to", p)
			}
		}
	}
}

// A message that is longer than what is received fails on the receiver.
func TestMismatchOfMessages(t *testing.T) {
	r := newRig(t, 2, 2*time.Second)
	mem := r.register(t, 1<<20)
	for p := range 2 {
		c := &Call{Collective: comm.OpSend, Count: 8 + p, To: -1, From: -1, Blocks: &layout.Blocks{}, Hash: uint32(8 + p), Dst: mem[p], Src: mem[p]}
		if p == 0 {
			c.To, c.Blocks.SendBytes[1] = 1, 8
		} else {
			c.From, c.Blocks.RecvBytes[0] = 0, 9
		}
		require.NoError(t, r.groups[p].Enqueue(r.streams[p], c))
	}
	require.NoError(t, r.streams[1].Synchronize())
	f := r.groups[1].Failure()
	require.NotNil(t, f)
	require.Equal(t, layout.Mismatch, f.Reason)
	require.Equal(t, layout.AwaitHeader, f.Awaited)
}

// The host can end what runs.
func TestAbort(t *testing.T) {
	r := newRig(t, 2, time.Minute)
	dst, src := r.register(t, 4<<20), r.register(t, 4<<20)
	require.NoError(t, r.groups[0].Enqueue(r.streams[0], sum(dst[0], src[0], 1<<20, 1)))
	time.Sleep(20 * time.Millisecond)
	done, err := r.streams[0].Done()
	require.NoError(t, err)
	require.False(t, done)
	r.groups[0].Abort()
	require.NoError(t, r.streams[0].Synchronize())
	require.Equal(t, layout.Aborted, r.groups[0].Failure().Reason)
	require.Equal(t, uint32(1), r.groups[0].Failure().Peer)
}

// A graph of calls can run many times, among other calls.
func TestGraph(t *testing.T) {
	const ranks, count = 3, 100000
	r := newRig(t, ranks, patience)
	mem := r.register(t, 4*count)
	one := make([]float32, count)
	for i := range one {
		one[i] = 1
	}
	graphs := make([]*cuda.GraphExec, ranks)
	for p := range ranks {
		r.upload(t, p, mem[p].Ptr, kernels.Bytes(one))
		require.NoError(t, r.streams[p].BeginCapture())
		for _, n := range []int{count, 10} { // a large call and a small one
			require.NoError(t, r.groups[p].Enqueue(r.streams[p], sum(mem[p], mem[p], n, uint32(n))))
		}
		g, err := r.streams[p].EndCapture()
		require.NoError(t, err)
		graphs[p], err = g.Instantiate()
		require.NoError(t, err)
		require.NoError(t, g.Destroy())
	}
	want, wantFew := float32(1), float32(1)
	for range 5 {
		for p := range ranks {
			require.NoError(t, graphs[p].Launch(r.streams[p]))
		}
		want, wantFew = want*ranks, wantFew*ranks*ranks
	}
	r.do(t, func(p int) *Call { return sum(mem[p], mem[p], 20, 5) })
	for p := range ranks {
		got := kernels.Slice[float32](r.download(t, p, mem[p].Ptr, 4*count))
		require.Equal(t, wantFew*ranks, got[0])
		require.Equal(t, want*ranks, got[15])
		require.Equal(t, want, got[20])
		require.Equal(t, want, got[count-1])
		require.NoError(t, graphs[p].Destroy())
	}
}
