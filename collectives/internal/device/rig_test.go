package device

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/cuda"
	"github.com/weft-go/weft/kernels"
	layout "github.com/weft-go/weft/kernels/cuda"
)

// rig is a communicator without comm: ranks on whatever devices there are, in this process.
type rig struct {
	contexts []*cuda.Context
	groups   []*Group
	streams  []cuda.Stream
	segments []cuda.Ptr
	buffers  int // registered
}

// contexts are those of all devices, made once and kept.
func devices(t testing.TB) []*cuda.Context {
	driver, err := cuda.Load()
	if err != nil {
		t.Skipf("no CUDA device: %v", err)
	}
	n, err := driver.Devices()
	if err != nil || n == 0 {
		t.Skipf("no CUDA device: %v", err)
	}
	var list []*cuda.Context
	for i := range n {
		d, err := driver.Device(i)
		require.NoError(t, err)
		c, err := d.Primary()
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Release() })
		list = append(list, c)
	}
	for _, a := range list {
		for _, b := range list {
			if a != b {
				require.NoError(t, a.EnablePeer(b))
			}
		}
	}
	return list
}

func newRig(t testing.TB, ranks int, timeout time.Duration) *rig {
	return newRigWith(t, ranks, Config{Timeout: timeout})
}

func newRigWith(t testing.TB, ranks int, config Config) *rig {
	all := devices(t)
	r := &rig{}
	per := (ranks + len(all) - 1) / len(all)
	sms, err := all[0].Device().Attribute(cuda.MultiprocessorCount)
	require.NoError(t, err)
	if per > sms {
		t.Skipf("%d ranks on a device with %d multiprocessors", per, sms)
	}
	lanes := layout.Lanes(sms, per)
	for p := range ranks {
		c := all[p%len(all)]
		r.contexts = append(r.contexts, c)
		n := layout.SegmentBytes(ranks, lanes)
		s := r.alloc(t, p, n)
		require.NoError(t, c.Fill8(s, 0, n))
		require.NoError(t, c.Synchronize())
		r.segments = append(r.segments, s)
	}
	for p := range ranks {
		config.Context, config.Rank, config.Lanes, config.Segments = r.contexts[p], p, lanes, r.segments
		g, err := New(config)
		require.NoError(t, err)
		s, err := r.contexts[p].NewStream(0)
		require.NoError(t, err)
		r.groups, r.streams = append(r.groups, g), append(r.streams, s)
		t.Cleanup(func() {
			require.NoError(t, s.Synchronize())
			require.NoError(t, g.Close())
			require.NoError(t, s.Destroy())
		})
	}
	return r
}

// alloc allocates memory of a rank for the time of the test.
func (r *rig) alloc(t testing.TB, rank, bytes int) cuda.Ptr {
	c := r.contexts[rank]
	p, err := c.Alloc(bytes)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Free(p)) })
	return p
}

// register allocates a buffer on each rank that all know.
func (r *rig) register(t testing.TB, bytes int) []Memory {
	r.buffers++
	var list []Memory
	for p := range r.groups {
		list = append(list, Memory{Ptr: r.alloc(t, p, bytes), Buffer: r.buffers})
	}
	for p := range r.contexts {
		for q, m := range list {
			at := r.segments[p] + layout.BufferTable + cuda.Ptr(8*(q*layout.MaxBuffers+r.buffers-1))
			r.upload(t, p, at, binary.LittleEndian.AppendUint64(nil, uint64(m.Ptr)))
		}
	}
	return list
}

// within is a place in registered memory, or the same place as memory that nobody knows.
func (m Memory) within(at int, registered bool) Memory {
	m.Ptr, m.Offset = m.Ptr+cuda.Ptr(at), m.Offset+uint64(at)
	if !registered {
		m.Buffer, m.Offset = 0, 0
	}
	return m
}

// do makes a call on all ranks and waits for it.
func (r *rig) do(t testing.TB, call func(rank int) *Call) {
	for p, g := range r.groups {
		require.NoError(t, g.Enqueue(r.streams[p], call(p)))
	}
	for p, s := range r.streams {
		require.NoError(t, s.Synchronize(), "rank %d", p)
	}
	for p, g := range r.groups {
		require.Nil(t, g.Failure(), "rank %d", p)
	}
}

// randomBytes are elements of a type: any bits, but for wide floats half of them numbers
// that are not far from 1, so that sums are not all infinite.
func randomBytes(rng *rand.Rand, t kernels.Type, count int) []byte {
	b := make([]byte, count*t.Size())
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], rng.Uint64())
	}
	for i := len(b) &^ 7; i < len(b); i++ {
		b[i] = byte(rng.Uint32())
	}
	switch t {
	case kernels.TypeFloat32, kernels.TypeFloat64, kernels.TypeFloat16, kernels.TypeBFloat16:
	default:
		return b
	}
	for i := range count {
		if rng.IntN(4) == 0 {
			continue
		}
		x := math.Ldexp(rng.Float64()*2-1, rng.IntN(9)-4)
		switch t {
		case kernels.TypeFloat32:
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(float32(x)))
		case kernels.TypeFloat64:
			binary.LittleEndian.PutUint64(b[8*i:], math.Float64bits(x))
		case kernels.TypeFloat16:
			binary.LittleEndian.PutUint16(b[2*i:], kernels.Float16FromFloat32(float32(x)).Bits())
		case kernels.TypeBFloat16:
			binary.LittleEndian.PutUint16(b[2*i:], kernels.BFloat16FromFloat32(float32(x)).Bits())
		}
	}
	return b
}

// sameBits compares results. Which NaN a Sum, Prod or Avg gives is not specified, but for the
// 8-bit types.
func sameBits(want, got []byte, t kernels.Type, op kernels.Op) (at int, same bool) {
	if bytes.Equal(want, got) {
		return 0, true
	}
	size := t.Size()
	for i := 0; i < len(want); i += size {
		w, g := want[i:i+size], got[i:i+size]
		if string(w) != string(g) && !(op != kernels.Min && op != kernels.Max && isNaN(w, t) && isNaN(g, t)) {
			return i / size, false
		}
	}
	return 0, true
}

func isNaN(b []byte, t kernels.Type) bool {
	switch t {
	case kernels.TypeFloat32:
		return binary.LittleEndian.Uint32(b)&0x7FFFFFFF > 0x7F800000
	case kernels.TypeFloat64:
		return binary.LittleEndian.Uint64(b)&0x7FFFFFFFFFFFFFFF > 0x7FF0000000000000
	case kernels.TypeFloat16:
		return binary.LittleEndian.Uint16(b)&0x7FFF > 0x7C00
	case kernels.TypeBFloat16:
		return binary.LittleEndian.Uint16(b)&0x7FFF > 0x7F80
	}
	return false
}

const guard = 256 // bytes around results that must stay as they are

// pattern is what results are before a call.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 0xA5
	}
	return b
}

// download reads a rank's memory.
func (r *rig) download(t testing.TB, rank int, at cuda.Ptr, n int) []byte {
	b := make([]byte, n)
	require.NoError(t, r.contexts[rank].CopyDtoH(b, at))
	return b
}

func (r *rig) upload(t testing.TB, rank int, at cuda.Ptr, b []byte) {
	require.NoError(t, r.contexts[rank].CopyHtoD(at, b))
	require.NoError(t, r.contexts[rank].Synchronize()) // the copy may end after the call
}

// manyRanks are numbers of ranks that share devices; the last has words for more peers than a
// block has threads. Tests with them take fewer sizes.
var manyRanks = []int{40, layout.MaxRanks}

var reductions = []comm.Collective{comm.OpAllReduce, comm.OpReduce, comm.OpReduceScatterBlock}
