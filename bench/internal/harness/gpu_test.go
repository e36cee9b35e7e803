package harness

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
)

// TestGPUSlots: calls of graphs meet their slots again, whatever graph they are in.
func TestGPUSlots(t *testing.T) {
	for slots, want := range map[int64]int64{1: 1, 2: 2, 3: 2, 7: 5, 19: 10, 20: 20, 39: 20, 40: 40, 159: 140, 160: 160, 1 << 20: 160} {
		got := gpuSlots(slots)
		require.Equal(t, want, got, "%d", slots)
		require.Zero(t, max(got, graphCalls)%got)
	}
	// Roots come again with the graphs.
	p := &pass{root: -1, ranks: 8, wrap: 20}
	require.Equal(t, 3, p.rootOf(19))
	require.Equal(t, 0, p.rootOf(20))
}

func TestTake(t *testing.T) {
	m := &meter{}
	require.EqualValues(t, 0, m.take(1, 1))
	require.EqualValues(t, 20, m.take(40, 20), "graphs begin where they were captured")
	require.EqualValues(t, 60, m.take(1, 1))
	require.EqualValues(t, 61, m.next)
}

// TestSpread: what several goroutines make and check is what one does.
func TestSpread(t *testing.T) {
	plain := newMaker(kernels.TypeFloat32, true, kernels.Sum, 3)
	mk := spread{plain, 4}
	const elements = 3<<20/4 + 5
	want, got := make([]byte, 4*elements), make([]byte, 4*elements)
	plain.fill(want, 1, 77)
	mk.fill(got, 1, 77)
	require.Equal(t, want, got)
	require.Zero(t, mk.wrong(got, 1, 77))
	got[0] ^= 1
	got[len(got)/2] ^= 1
	got[len(got)-1] ^= 1
	require.EqualValues(t, 3, mk.wrong(got, 1, 77))
	require.Equal(t, plain.wrongReduced(got, 3, 77), mk.wrongReduced(got, 3, 77))
	require.Zero(t, inParts(nil, 4, func([]byte, int64) int64 { return 0 }))
}

func TestGPUFlags(t *testing.T) {
	cfg, err := parseFlags("perf", "", []string{"-device", "cuda", "-coll", "all"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, graph, cfg.form)
	require.Equal(t, "symmetric", cfg.memory)
	require.Len(t, cfg.colls, 7)
	cfg, err = parseFlags("perf", "", nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, blocking, cfg.form)
	require.Equal(t, "slice", cfg.memory)
	cfg, err = parseFlags("perf", "", strings.Fields("-device cuda -d all"), io.Discard)
	require.NoError(t, err)
	require.Len(t, cfg.types, 9)
	require.NotContains(t, cfg.types, kernels.TypeInt8)
	require.Contains(t, cfg.types, kernels.TypeFloat8E4M3)
	_, err = parseFlags("perf", "", strings.Fields("-device cuda -t int8 -coll alltoall,barrier"), io.Discard)
	require.NoError(t, err)
	_, err = parseFlags("ring", "ring", []string{"-device", "cuda"}, io.Discard)
	require.ErrorContains(t, err, "algorithms can't be asked for")
	for args, want := range map[string]string{
		"-peer nccl":                                       "nccl does not go with -device cpu",
		"-form graph":                                      "graph is no form of calls with -device cpu",
		"-device cuda -peer mpi":                           "mpi does not go with -device cuda",
		"-device cuda -form started":                       "started is no form of calls with -device cuda",
		"-device cuda -memory slice":                       "known are symmetric, plain with -device cuda",
		"-device cuda -memory plain -peer nccl-symmetric":  "nccl-symmetric has symmetric memory, not plain",
		"-device cuda -coll allreduce,scan":                "there is no scan on GPUs",
		"-device cuda -coll alltoall,reduce -t float,int8": "-device: there is no reduce of int8 on GPUs",
		"-device cuda -algo ring":                          "algorithms can't be asked for on GPUs",
		"-device tpu":                                      "known are cpu, cuda",
	} {
		_, err := parseFlags("perf", "", strings.Fields(args), io.Discard)
		require.ErrorContains(t, err, want, args)
	}
}
