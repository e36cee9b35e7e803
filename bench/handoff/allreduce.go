package main

import (
	"context"
	"errors"

	"github.com/weft-go/weft/collectives"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/cache"
	"github.com/weft-go/weft/internal/release"
	"github.com/weft-go/weft/kernels"
)

const (
	// Longer payloads lie behind the slots, in as many places as take no line that is still in
	// the other's own cache.
	longPlaces = 256
	longWords  = 4 << 10 / 8
	longLeast  = 1 << 10 / 8
	ringWords  = slots*slotWords + longPlaces*longWords

	poolWords  = 32 << 20 / 8 // twice a usual cache of all processors, on two ranks and in two pools
	vectorFrom = 128 / 8      // fewer are added here: to call a kernel takes longer
)

// fill makes the pools, and writes all of their memory.
func (e *end) fill() error {
	e.src, e.dst = make([]uint64, poolWords), make([]uint64, poolWords)
	values := kernels.Slice[float32](kernels.Bytes(e.src))
	for i := range values {
		values[i] = float32(i%100 + e.rank)
	}
	clear(e.dst)
	if len(values) != 2*poolWords {
		return errors.New("a pool is not what it should be")
	}
	return nil
}

// allReduce returns a round of an AllReduce of so many bytes, with nothing that is not needed.
func (e *end) allReduce(bytes int, warm bool) func(before, behind int) {
	words, first := bytes/8, 0
	stride := max(words, lineWords)
	return func(_, _ int) {
		e.number++
		if first += stride; warm || first+stride > poolWords {
			first = 0
		}
		src, dst := e.src[first:][:words], e.dst[first:][:words]
		slot := int(e.number%slots) * slotWords
		at := slot + lineWords
		switch {
		case words < lineWords:
			at = slot + 1
		case words > longLeast:
			at = slots*slotWords + int(e.number%longPlaces)*longWords
		}
		copy(e.out[at:][:words], src)
		release.Store(word(e.out, slot), e.number)
		if words > longLeast {
			cache.Own(kernels.Bytes(dst))
		}
		e.wait(word(e.in, slot))
		add(dst, src, e.in[at:][:words])
		if words <= lineWords {
			next := int((e.number+1)%slots) * slotWords
			cache.Own(kernels.Bytes(e.out[next:][:lineWords+words]))
		}
	}
}

// library returns a round of the library's AllReduce of so many bytes.
func (e *end) library(ctx context.Context, c *comm.Communicator, bytes int) func(before, behind int) {
	words, first := bytes/8, 0
	stride := max(words, lineWords)
	return func(_, _ int) {
		if first += stride; first+stride > poolWords {
			first = 0
		}
		src, dst := kernels.Bytes(e.src[first:][:words]), kernels.Bytes(e.dst[first:][:words])
		if err := collectives.AllReduce(ctx, c, kernels.Slice[float32](dst), kernels.Slice[float32](src), kernels.Sum); err != nil {
			e.err = err
		}
	}
}

// add adds float32 that lie in words.
func add(dst, a, b []uint64) {
	d, x, y := kernels.Slice[float32](kernels.Bytes(dst)), kernels.Slice[float32](kernels.Bytes(a)), kernels.Slice[float32](kernels.Bytes(b))
	if len(dst) < vectorFrom {
		x, y = x[:len(d)], y[:len(d)]
		for i := range d {
			d[i] = x[i] + y[i]
		}
		return
	}
	srcs := [2][]byte{kernels.Bytes(a), kernels.Bytes(b)}
	if err := kernels.Reduce(kernels.Bytes(dst), srcs[:], kernels.TypeFloat32, kernels.Sum); err != nil {
		panic(err)
	}
}
