//go:build linux && !android && (amd64 || arm64) && !nocuda && !mpi

// With the build tag mpi all of this would be the same.

package nccl

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/bench/peers/nccl/nccltest"
	"github.com/weft-go/weft/internal/cuda"
	"github.com/weft-go/weft/internal/cuda/cudatest"
	"github.com/weft-go/weft/internal/dl"
	"github.com/weft-go/weft/kernels"
)

// context is of the driver's double.
func context(t *testing.T) *cuda.Context {
	t.Helper()
	library, err := cudatest.Library()
	require.NoError(t, err)
	require.NoError(t, os.Setenv("WEFT_CUDA_DRIVER", library)) // a process has one driver
	driver, err := cuda.Load()
	require.NoError(t, err)
	device, err := driver.Device(0)
	require.NoError(t, err)
	c, err := device.Primary()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Release()) })
	return c
}

func double(t *testing.T, flags ...string) *Library {
	t.Helper()
	path, err := nccltest.Library(flags...)
	require.NoError(t, err)
	l, err := open(path)
	require.NoError(t, err)
	return l
}

// TestCalls makes all calls with one rank, where each is a copy: what the double has
// understood is in its log, and the data are where they belong.
func TestCalls(t *testing.T) {
	ctx := context(t)
	for _, version := range []string{"new", "old"} {
		t.Run(version, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			t.Setenv("WEFT_NCCL_DOUBLE_LOG", log)
			l := double(t)
			toAll := "ncclAlltoAll count=5 type=1 stream=1"
			if version == "old" {
				l = double(t, "-DOLD")
				toAll = "ncclSend count=5 type=1 peer=0 stream=1\nncclRecv count=5 type=1 peer=0 stream=1"
			}
			id, err := l.UniqueID()
			require.NoError(t, err)
			c, err := l.Init(ctx, 1, 0, id)
			require.NoError(t, err)
			s, err := ctx.NewStream(0)
			require.NoError(t, err)
			src, err := ctx.Alloc(64)
			require.NoError(t, err)
			dst, err := ctx.Alloc(64)
			require.NoError(t, err)
			for i, call := range []struct {
				bytes int
				f     func() error
			}{
				{6, func() error { return c.AllReduce(dst, src, 3, kernels.TypeFloat16, kernels.Max, s) }},
				{40, func() error { return c.Reduce(dst, src, 5, kernels.TypeFloat64, kernels.Prod, 0, s) }},
				{0, func() error { return c.Broadcast(dst, 5, kernels.TypeInt8, 0, s) }},
				{20, func() error { return c.ReduceScatter(dst, src, 5, kernels.TypeInt32, kernels.Min, s) }},
				{10, func() error { return c.AllGather(dst, src, 5, kernels.TypeBFloat16, s) }},
				{5, func() error { return c.AllToAll(dst, src, 5, kernels.TypeUint8, s) }},
			} {
				data, got := bytes.Repeat([]byte{byte(i + 1)}, call.bytes), make([]byte, call.bytes)
				require.NoError(t, ctx.CopyHtoD(src, data))
				require.NoError(t, c.Do(call.f), i)
				require.NoError(t, ctx.CopyDtoH(got, dst))
				require.Equal(t, data, got, i)
			}
			require.NoError(t, c.Destroy())
			wrote, err := os.ReadFile(log + ".0")
			require.NoError(t, err)
			require.Equal(t, strings.Join([]string{
				"ncclCommInitRank ranks=1 rank=0",
				"ncclAllReduce count=3 type=6 op=2 stream=1",
				"ncclReduce count=5 type=8 op=1 root=0 stream=1",
				"ncclBroadcast count=5 type=0 root=0 stream=1",
				"ncclReduceScatter count=5 type=2 op=3 stream=1",
				"ncclAllGather count=5 type=9 stream=1",
				toAll,
				"ncclCommDestroy", "",
			}, "\n"), string(wrote))
			require.NoError(t, s.Destroy())
			require.NoError(t, ctx.Free(src))
			require.NoError(t, ctx.Free(dst))
		})
	}
}

func TestWindow(t *testing.T) {
	ctx := context(t)
	l := double(t)
	id, err := l.UniqueID()
	require.NoError(t, err)
	c, err := l.Init(ctx, 2, 1, id)
	require.NoError(t, err)
	require.NoError(t, c.Do(func() error {
		p, err := c.Alloc(1000)
		require.NoError(t, err)
		require.NotZero(t, p)
		w, err := c.Register(p, 1000)
		require.NoError(t, err)
		require.NotZero(t, w)
		require.NoError(t, c.Deregister(w))
		t.Setenv("WEFT_NCCL_DOUBLE_FLAT", "1")
		_, err = c.Register(p, 1000)
		require.ErrorContains(t, err, "no symmetric memory")
		return c.Free(p)
	}))
	require.NoError(t, c.Abort())

	old := double(t, "-DOLD")
	require.Equal(t, "2.18.3", old.Version())
	c, err = old.Init(ctx, 1, 0, id)
	require.NoError(t, err)
	_, err = c.Alloc(1000)
	require.ErrorIs(t, err, ErrNotInLibrary)
	require.EqualError(t, err, "ncclMemAlloc: not in this NCCL (2.18.3)")
	require.NoError(t, c.Destroy())
}

func TestErrors(t *testing.T) {
	ctx := context(t)
	l := double(t)
	require.Equal(t, "2.28.9", l.Version())
	id, err := l.UniqueID()
	require.NoError(t, err)
	wrong := id
	wrong[127]++ // the last byte counts too
	_, err = l.Init(ctx, 1, 0, wrong)
	require.EqualError(t, err, "ncclCommInitRank: text of result 4 (ncclResult_t 4): the id is not what was made")
	_, err = l.Init(ctx, 2, 2, id)
	require.EqualError(t, err, "ncclCommInitRank: text of result 4 (ncclResult_t 4): no such rank")
	c, err := l.Init(ctx, 1, 0, id)
	require.NoError(t, err)
	err = c.AllReduce(0, 0, 0, kernels.TypeInt8, kernels.Sum, ctx.Stream(0))
	var refused *Error
	require.ErrorAs(t, err, &refused, "outside Do no context is current")
	require.Equal(t, 1, refused.Code)
	require.NoError(t, c.Destroy())

	_, err = open("/nonexistent/libnccl.so.2")
	require.ErrorIs(t, err, ErrNoLibrary)
	require.ErrorContains(t, err, "/nonexistent/libnccl.so.2")
	require.ErrorContains(t, err, "WEFT_NCCL")
	_, err = open("libc.so.6")
	require.ErrorIs(t, err, ErrNoLibrary)
	require.ErrorContains(t, err, "has no nccl")
	require.Equal(t, "2.7.8", versionString(2708))

	require.True(t, Reduces(kernels.TypeFloat32, kernels.Sum))
	require.False(t, Reduces(kernels.TypeFloat32, kernels.Avg))
	require.False(t, Reduces(kernels.TypeInt16, kernels.Sum))
	require.False(t, Moves(kernels.TypeUint16))
}

// TestReal looks at what can be seen of the real NCCL without a GPU, where $WEFT_NCCL names it.
func TestReal(t *testing.T) {
	if os.Getenv(libraryEnv) == "" {
		t.Skip("no NCCL: ", libraryEnv, " is not set")
	}
	l, err := Load()
	require.NoError(t, err)
	t.Log(l.Path(), l.Version())
	require.Contains(t, text(dl.Call(l.address[fnGetErrorString], 4)), "invalid argument")
	err = l.call(fnGetVersion, 0)
	var refused *Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 4, refused.Code)
	require.Contains(t, refused.Text, "invalid argument")
	_, err = l.UniqueID()
	require.NoError(t, err)
}
