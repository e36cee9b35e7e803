package harness

import (
	"os"
	"strings"

	"github.com/weft-go/weft/kernels"
)

// A layout is where the data of one size lie in the pool: slot k has a source
// and a destination, each at its stride.
type layout struct {
	src, dst             int64 // elements of source and destination
	srcAt, dstAt         int64 // elements of a slot before them
	srcStride, dstStride int64 // elements from one slot to the next
	slots                int64
}

// slotAlign is what slots begin at multiples of, in bytes: a cache line.
const slotAlign = 64

// newLayout divides regions of so many bytes each into slots for count elements
// per rank.
func newLayout(c *collective, count int64, elem, ranks int, region int64, warm bool) layout {
	var l layout
	l.src, l.dst = c.elements(count, ranks)
	stride := func(n int64) int64 {
		return max(slotAlign, (n*int64(elem)+slotAlign-1)/slotAlign*slotAlign) / int64(elem)
	}
	l.srcStride, l.dstStride = stride(l.src), stride(l.dst)
	l.slots = region / int64(elem) / max(l.srcStride, l.dstStride)
	if warm {
		l.slots = 1
	}
	return l
}

// inPlace is the layout whose sources are in the destinations' region: the longer
// of source and destination is the whole slot, the shorter is the rank's block
// of it.
func (l layout) inPlace(rank int) layout {
	l.dstStride = max(l.srcStride, l.dstStride)
	l.srcStride = l.dstStride
	switch {
	case l.src < l.dst:
		l.srcAt = int64(rank) * l.src
	case l.dst < l.src:
		l.dstAt = int64(rank) * l.dst
	}
	return l
}

// limit leaves so many slots at most and, if they are more than the ranks, a
// multiple of those, so that a root that moves on comes with the same slots
// again.
func (l *layout) limit(most, ranks int64) {
	l.slots = min(l.slots, most)
	if l.slots > ranks {
		l.slots -= l.slots % ranks
	}
}

// regionBytes is the size of the source, and of the destination, on one rank,
// if the largest slot has so many bytes: two of them at least, and on all ranks
// together twice the last-level cache.
func regionBytes(largest int64, ranks int, cache int64, warm bool) int64 {
	slot := max(slotAlign, (largest+slotAlign-1)/slotAlign*slotAlign)
	if warm {
		return slot
	}
	share := (2*cache/int64(ranks) + slotAlign - 1) / slotAlign * slotAlign
	return max(share, 2*slot)
}

// lastLevelCache returns the size of the last-level cache in bytes, or 32 MiB if
// it can't be told.
func lastLevelCache() int64 {
	for _, index := range []string{"3", "2"} {
		b, err := os.ReadFile("/sys/devices/system/cpu/cpu0/cache/index" + index + "/size")
		if err != nil {
			continue
		}
		if n, err := parseSize(strings.TrimSpace(string(b))); err == nil && n > 0 {
			return n
		}
	}
	return 32 << 20
}

// A pool is a rank's memory for sources and destinations.
type pool struct {
	src, dst []byte
	gpu      *gpuPool // what src and dst mirror, or nil
	free     func() error
}

// heapPool is a pool of the Go heap.
func heapPool(bytes int64) pool {
	words := bytes / 8
	return pool{
		src:  kernels.Bytes(make([]uint64, words)),
		dst:  kernels.Bytes(make([]uint64, words)),
		free: func() error { return nil },
	}
}
