//go:build linux && !android && (amd64 || arm64) && !nocuda && !mpi

// With the build tag mpi all of this would be the same.

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/internal/cuda"
	"github.com/weft-go/weft/internal/cuda/cudatest"
)

var gpuArgs = []string{"-epochs", "1", "-accuracy", "0.3"}

// digest runs the program to its end and returns the digest of its parameters.
func digest(t *testing.T, ranks int, launcher []string, args ...string) (digest, output string) {
	t.Helper()
	r := program(t, launcher, append(args, gpuArgs...)...)
	requireResult(t, r, ranks)
	found := digests.FindStringSubmatch(r.stdout)
	require.NotNil(t, found, r.stdout)
	return found[1], r.stdout
}

// TestGPUDouble has one rank, whose gradients go to the double's memory and back, as kernels
// don't run there.
func TestGPUDouble(t *testing.T) {
	library, err := cudatest.Library()
	require.NoError(t, err)
	t.Setenv("WEFT_CUDA_DRIVER", library)
	t.Setenv("WEFT_DOUBLE_QUIET", "1")
	want, output := digest(t, 1, nil, "-ranks", "1", "-device", "cpu")
	require.Contains(t, output, "gradients are summed on the CPUs: -device cpu\n")
	for _, device := range []string{"cuda", "auto"} {
		got, output := digest(t, 1, nil, "-ranks", "1", "-device", device)
		require.Equal(t, want, got)
		require.Contains(t, output, "rank 0 has Double 0 GPU-00010203-")
	}
	t.Setenv("WEFT_TRANSPORT", "fabric")
	got, output := digest(t, 1, nil, "-ranks", "1")
	require.Equal(t, want, got)
	require.Contains(t, output, "gradients are summed on the CPUs: WEFT_TRANSPORT asks for a fabric in software\n")
}

// TestGPUNone: without a driver all is as without GPUs, unless they were asked for.
func TestGPUNone(t *testing.T) {
	t.Setenv("WEFT_CUDA_DRIVER", "/nonexistent/libcuda.so")
	_, output := digest(t, 2, nil, "-ranks", "2")
	require.Contains(t, output, "gradients are summed on the CPUs: not all ranks have a GPU (weft info says why)\n")
	r := program(t, nil, "-ranks", "2", "-device", "cuda")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.stderr, "-device cuda: ")
	require.Contains(t, r.stderr, "no CUDA device")
}

// TestGPUSome: whichever rank lacks a GPU, all do without, and rank 0 says why in the same words.
func TestGPUSome(t *testing.T) {
	library, err := cudatest.Library()
	require.NoError(t, err)
	t.Setenv("WEFT_DOUBLE_QUIET", "1")
	weft := weftRun(t)
	for lacks := range 2 {
		drivers := []string{library, library}
		drivers[lacks] = "/nonexistent/libcuda.so"
		each := `export WEFT_CUDA_DRIVER=` + drivers[0] + `; if [ "$WEFT_RANK" = 1 ]; then export WEFT_CUDA_DRIVER=` + drivers[1] + `; fi; exec "$0" "$@"`
		_, output := digest(t, 2, append(weft(2), "sh", "-c", each))
		require.Contains(t, output, "gradients are summed on the CPUs: not all ranks have a GPU (weft info says why)\n")
	}
}

// TestGPUSameBits trains with and without GPUs.
func TestGPUSameBits(t *testing.T) {
	driver, err := cuda.Load()
	if err != nil {
		t.Skip("no CUDA device: ", err)
	}
	if n, err := driver.Devices(); err != nil || n == 0 {
		t.Skip("no CUDA device: ", err)
	}
	weft := weftRun(t)
	for _, ranks := range []int{2, 4} {
		want, _ := digest(t, ranks, weft(ranks), "-device", "cpu")
		got, output := digest(t, ranks, weft(ranks), "-device", "cuda")
		require.Equal(t, want, got)
		require.Contains(t, output, "summed there")
	}
}
