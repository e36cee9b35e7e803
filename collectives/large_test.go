//go:build linux && (amd64 || arm64)

package collectives

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// vast memory has more than 2³¹ bytes of addresses and little memory: in most of
// them a piece of it repeats, which several writes then share. Pieces with memory of
// their own lie where something happens: at the beginning, around 2³⁰ and 2³¹, and at
// the end. Only they are compared; a write at a wrong address, by an overflow, would
// be missing in one of them and be seen in another.
type vast struct {
	b    []byte
	rank int
}

const (
	// piece is not a power of two, so that addresses that are wrong by one don't
	// have the same content. It is a multiple of all page sizes.
	piece      = 17 << 16
	vastPieces = 1<<31/piece + 3
	vastBytes  = vastPieces * piece
)

// ownPiece says whether a piece has memory of its own.
func ownPiece(k int) bool {
	return k == 0 || k == 1<<30/piece || k == 1<<31/piece || k == vastPieces-1
}

// content is what a rank's source has at byte i.
func content(rank, i int) byte {
	k, at := i/piece, i%piece
	if !ownPiece(k) {
		k = -1
	}
	h := (uint64(k)<<40 + uint64(at)<<1 + uint64(rank)) * 0x9e3779b97f4a7c15
	return byte(h >> 56)
}

func newVast(t *testing.T, rank int) *vast {
	t.Helper()
	addr, err := unix.MmapPtr(-1, 0, nil, vastBytes, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.MunmapPtr(addr, vastBytes)) })
	fd, err := unix.MemfdCreate("vast", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Ftruncate(fd, piece))
	for k := range vastPieces {
		file, flags := fd, unix.MAP_SHARED|unix.MAP_FIXED|unix.MAP_POPULATE
		if ownPiece(k) {
			file, flags = -1, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED
		}
		_, err := unix.MmapPtr(file, 0, unsafe.Add(addr, k*piece), piece, unix.PROT_READ|unix.PROT_WRITE, flags)
		require.NoError(t, err)
	}
	return &vast{unsafe.Slice((*byte)(addr), vastBytes), rank}
}

// fill sets the content of a source, or of what is to be written.
func (v *vast) fill(f func(i int) byte) {
	for k := range vastPieces {
		if k <= 1 || ownPiece(k) { // piece 1 is all that repeat
			for i := k * piece; i < (k+1)*piece; i++ {
				v.b[i] = f(i)
			}
		}
	}
}

// check compares the pieces of n bytes that are not shared.
func (v *vast) check(what string, n int, want func(i int) byte) error {
	compared := 0
	for k := range vastPieces {
		if !ownPiece(k) {
			continue
		}
		for i := k * piece; i < (k+1)*piece; i++ {
			w := byte(0xee) // not written
			if i < n {
				w = want(i)
				compared++
			}
			if v.b[i] != w {
				return fmt.Errorf("%s, rank %d: byte %d of %d is %#x, want %#x", what, v.rank, i, n, v.b[i], w)
			}
		}
	}
	if compared == 0 && n > 0 {
		return fmt.Errorf("%s: nothing compared", what)
	}
	return nil
}

// TestBeyond31Bits: counts and offsets beyond 2³¹ elements, and beyond as many
// bytes of larger elements. Without WEFT_TEST_LONG=1 some are left out.
func TestBeyond31Bits(t *testing.T) {
	const n = 2
	ctx := context.Background()
	require.Greater(t, vastBytes, 1<<31+piece)
	var src, dst [n]*vast
	for r := range n {
		src[r], dst[r] = newVast(t, r), newVast(t, r)
		src[r].fill(func(i int) byte { return content(r, i) })
	}
	sum2 := func(i int) byte { return content(0, i) + content(1, i) }
	word := func(rank, i int) uint64 { // the int64 that byte i is in
		var b [8]byte
		for j := range b {
			b[j] = content(rank, i&^7+j)
		}
		return binary.LittleEndian.Uint64(b[:])
	}
	sum8 := func(i int) byte { return byte((word(0, i) + word(1, i)) >> (8 * (i & 7))) }
	const all = 1<<31 + 12345              // bytes
	const half = 1<<30 + 77                // of two blocks
	v := [n][n]int{{3, 1<<31 + 5}, {7, 9}} // of an AllToAllV: from, to
	counts := []int{1<<31 + 1, 3}

	tests := []struct {
		name string
		long bool
		race bool // also with the race detector
		call func(c *comm.Communicator, dst, src []byte) error
		n    [n]int // bytes of the result, by rank
		want func(rank, i int) byte
	}{
		{name: "AllReduce", n: [n]int{all, all},
			call: func(c *comm.Communicator, dst, src []byte) error {
				return AllReduce(ctx, c, dst[:all], src[:all], kernels.Sum)
			},
			want: func(rank, i int) byte { return sum2(i) }},
		{name: "AllReduce int64", long: true, n: [n]int{1<<31 + 8*1001, 1<<31 + 8*1001},
			call: func(c *comm.Communicator, dst, src []byte) error {
				const elems = 1<<28 + 1001
				return AllReduce(ctx, c, kernels.Slice[int64](dst[:8*elems]), kernels.Slice[int64](src[:8*elems]), kernels.Sum)
			},
			want: func(rank, i int) byte { return sum8(i) }},
		{name: "AllReduce by a function", long: true, n: [n]int{all, all},
			call: func(c *comm.Communicator, dst, src []byte) error {
				return AllReduceFunc(ctx, c, dst[:all], src[:all], func(acc, x []byte) { copy(acc, x) })
			},
			want: func(rank, i int) byte { return content(1, i) }},
		{name: "Broadcast", race: true, n: [n]int{0, all},
			call: func(c *comm.Communicator, dst, src []byte) error {
				if c.Rank() == 0 {
					return Broadcast(ctx, c, src[:all], 0)
				}
				return Broadcast(ctx, c, dst[:all], 0)
			},
			want: func(rank, i int) byte { return content(0, i) }},
		{name: "AllGather", n: [n]int{2 * half, 2 * half},
			call: func(c *comm.Communicator, dst, src []byte) error { return AllGather(ctx, c, dst[:2*half], src[:half]) },
			want: func(rank, i int) byte { return content(i/half, i%half) }},
		{name: "AllGather of structs", long: true, n: [n]int{24 * (1<<30/12 + 7), 24 * (1<<30/12 + 7)},
			call: func(c *comm.Communicator, dst, src []byte) error {
				const elems = 1<<30/12 + 7
				return AllGather(ctx, c, sliceOf[[12]byte](dst[:24*elems]), sliceOf[[12]byte](src[:12*elems]))
			},
			want: func(rank, i int) byte {
				const block = 12 * (1<<30/12 + 7)
				return content(i/block, i%block)
			}},
		{name: "AllToAll", long: true, n: [n]int{2 * half, 2 * half},
			call: func(c *comm.Communicator, dst, src []byte) error { return AllToAll(ctx, c, dst[:2*half], src[:2*half]) },
			want: func(rank, i int) byte { return content(i/half, rank*half+i%half) }},
		{name: "AllToAllV", race: true, n: [n]int{v[0][0] + v[1][0], v[0][1] + v[1][1]},
			call: func(c *comm.Communicator, dst, src []byte) error {
				r := c.Rank()
				in, out := []int{v[0][r], v[1][r]}, v[r][:]
				return AllToAllV(ctx, c, dst[:sum(in)], in, src[:sum(out)], out)
			},
			want: func(rank, i int) byte {
				from := 0
				if i >= v[0][rank] {
					from, i = 1, i-v[0][rank]
				}
				if rank == 1 {
					i += v[from][0]
				}
				return content(from, i)
			}},
		{name: "ReduceScatter", n: [n]int{counts[0], counts[1]},
			call: func(c *comm.Communicator, dst, src []byte) error {
				return ReduceScatter(ctx, c, dst[:counts[c.Rank()]], src[:sum(counts)], counts, kernels.Sum)
			},
			want: func(rank, i int) byte { return sum2(rank*counts[0] + i) }},
		{name: "ReduceScatterBlock", n: [n]int{half, half},
			call: func(c *comm.Communicator, dst, src []byte) error {
				return ReduceScatterBlock(ctx, c, dst[:half], src[:2*half], kernels.Sum)
			},
			want: func(rank, i int) byte { return sum2(rank*half + i) }},
		{name: "GatherV", long: true, n: [n]int{0, sum(counts)},
			call: func(c *comm.Communicator, dst, src []byte) error {
				return GatherV(ctx, c, dst[:sum(counts)], counts, src[:counts[c.Rank()]], 1)
			},
			want: func(rank, i int) byte {
				if i >= counts[0] {
					return content(1, i-counts[0])
				}
				return content(0, i)
			}},
		{name: "Scatter", long: true, n: [n]int{half, half},
			call: func(c *comm.Communicator, dst, src []byte) error { return Scatter(ctx, c, dst[:half], src[:2*half], 0) },
			want: func(rank, i int) byte { return content(0, rank*half+i) }},
		{name: "Exscan", long: true, n: [n]int{0, all},
			call: func(c *comm.Communicator, dst, src []byte) error {
				return Exscan(ctx, c, dst[:all], src[:all], kernels.Sum)
			},
			want: func(rank, i int) byte { return content(0, i) }},
	}
	cs := local(t, n, comm.WithTimeout(5*time.Minute))
	for _, tt := range tests {
		if tt.long && !testLong || raceEnabled && !tt.race {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			begin := time.Now()
			require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
				r := c.Rank()
				dst[r].fill(func(int) byte { return 0xee })
				if err := tt.call(c, dst[r].b, src[r].b); err != nil {
					return err
				}
				return errors.Join(
					dst[r].check(tt.name, tt.n[r], func(i int) byte { return tt.want(r, i) }),
					src[r].check("src of "+tt.name, vastBytes, func(i int) byte { return content(r, i) }))
			})...))
			t.Log(time.Since(begin))
		})
	}
}
