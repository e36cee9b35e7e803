//go:build linux && !android && (amd64 || arm64) && !nocuda

package device

import (
	"bytes"
	"encoding/binary"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/internal/cuda"
	"github.com/weft-go/weft/internal/cuda/cudatest"
)

// ranks returns devices as n ranks of this process have them, who take turns.
func ranks(t *testing.T, n int) []*Device {
	t.Helper()
	cudatest.Use(t)
	count, err := Count()
	if err != nil && os.Getenv("WEFT_TEST_GPU") != "" {
		t.Skip("no CUDA device: ", err)
	}
	require.NoError(t, err)
	var all []*Device
	for i := range n {
		d, err := Open(i % count)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		all = append(all, d)
	}
	return all
}

func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*13) + seed
	}
	return b
}

func TestOpen(t *testing.T) {
	d := ranks(t, 1)[0]
	require.NotEmpty(t, d.Name)
	require.NotZero(t, d.UUID)
	require.Equal(t, d.RoundUp(1), d.RoundUp(d.RoundUp(1)))
	require.Greater(t, d.RoundUp(d.RoundUp(1)+1), d.RoundUp(1))
	_, err := Open(1000)
	require.ErrorIs(t, err, cuda.InvalidDevice)
}

// TestShare has each of three ranks write into the memory of all, in all ways that go
// within one process.
func TestShare(t *testing.T) {
	all := ranks(t, 3)
	const n = 3 << 20 // no multiple of the granularity
	for name, tc := range map[string]struct {
		inProcess bool
		make      func(*Device) *Memory
	}{
		"one address": {true, func(d *Device) *Memory {
			m, err := d.Alloc(n)
			require.NoError(t, err)
			return m
		}},
		"descriptors": {false, func(d *Device) *Memory {
			m, err := d.Alloc(n)
			require.NoError(t, err)
			return m
		}},
		"another library's allocation": {true, func(d *Device) *Memory {
			p, err := d.Context.Alloc(n + 1000)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, d.Context.Free(p)) })
			require.NoError(t, d.Context.Fill8(p, 0, n+1000))
			m, err := d.Adopt(p+500, n)
			require.NoError(t, err)
			require.Equal(t, p+500, m.Ptr)
			return m
		}},
		"another library's mapping": {false, func(d *Device) *Memory {
			other, err := d.Alloc(n + 1000)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, other.Release()) })
			m, err := d.Adopt(other.Ptr+500, n)
			require.NoError(t, err)
			return m
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var own []*Memory
			var reached [][]*Memory // by rank, of whom
			for _, d := range all {
				own = append(own, tc.make(d))
			}
			for me, d := range all {
				row := make([]*Memory, len(all))
				for p, m := range own {
					if p == me {
						row[p] = m
						continue
					}
					x, err := m.Export(tc.inProcess)
					require.NoError(t, err)
					row[p], err = d.Import(x)
					require.NoError(t, err)
					if x.File != nil {
						require.NoError(t, x.File.Close())
					}
					require.Equal(t, n, row[p].Bytes)
					_, err = row[p].Export(tc.inProcess)
					require.ErrorIs(t, err, ErrShare)
				}
				reached = append(reached, row)
			}
			zeros, got := make([]byte, n), make([]byte, n)
			for p, m := range own {
				require.NoError(t, all[p].Context.CopyDtoH(got, m.Ptr))
				require.True(t, bytes.Equal(zeros, got), "not zeroed")
			}
			for me, d := range all {
				for p := range all {
					src := pattern(n/4, byte(10*me+p))
					require.NoError(t, d.Context.CopyHtoD(reached[me][p].Ptr+cuda.Ptr(me*n/4), src))
				}
			}
			for p, d := range all {
				require.NoError(t, d.Context.CopyDtoH(got, own[p].Ptr))
				for me := range all {
					require.True(t, bytes.Equal(pattern(n/4, byte(10*me+p)), got[me*n/4:me*n/4+n/4]), "rank %d's part at rank %d", me, p)
				}
			}

			// The owners go first: what they had stays for the others.
			for _, m := range own {
				require.NoError(t, m.Release())
				require.NoError(t, m.Release(), "a second time")
			}
			require.NoError(t, all[2].Context.CopyDtoH(got[:n/4], reached[2][0].Ptr))
			require.True(t, bytes.Equal(pattern(n/4, 0), got[:n/4]))
			for me := range all {
				for p, m := range reached[me] {
					if p != me {
						require.NoError(t, m.Release())
					}
				}
			}
		})
	}
}

func TestGone(t *testing.T) {
	all := ranks(t, 2)
	m, err := all[0].Alloc(100)
	require.NoError(t, err)
	x, err := m.Export(true)
	require.NoError(t, err)
	require.NoError(t, m.Release())
	_, err = all[1].Import(x)
	require.ErrorIs(t, err, ErrExport)
}

func TestMemoryThatCantBeShared(t *testing.T) {
	d := ranks(t, 1)[0]
	host, err := d.Context.AllocHost(4096)
	require.NoError(t, err)
	defer func() { require.NoError(t, host.Free()) }()
	_, err = d.Adopt(host.Device, 100)
	require.ErrorIs(t, err, ErrShare)
	_, err = d.Adopt(0x10, 100)
	require.ErrorIs(t, err, ErrShare)
	_, err = d.Adopt(0, 100)
	require.ErrorIs(t, err, cuda.ErrInvalid)

	p, err := d.Context.Alloc(4096)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Context.Free(p)) }()
	_, size, err := d.Context.AddressRange(p)
	require.NoError(t, err)
	_, err = d.Adopt(p+100, size-99)
	require.ErrorIs(t, err, cuda.ErrInvalid)
	_, err = d.Adopt(p, 0)
	require.ErrorIs(t, err, cuda.ErrInvalid)

	// Memory that migrates, and memory of a pool.
	library := d.Context.Driver().Library()
	for function, args := range map[string][]uintptr{"cuMemAllocManaged": {4096, 1}, "cuMemAllocAsync": {4096, 0}} {
		at := new(cuda.Ptr)
		require.NoError(t, d.Context.Do(func() error {
			if code := cudatest.Other(t, library, function, uintptr(unsafe.Pointer(at)), args[0], args[1]); code != 0 {
				return cuda.Code(code)
			}
			return d.Context.Synchronize()
		}))
		_, err = d.Adopt(*at, 100)
		require.ErrorIs(t, err, ErrShare, function)
		t.Log(err)
		require.NoError(t, d.Context.Free(*at))
	}

	// Mapped memory that was made for this process alone.
	dev, driver := d.Context.Device(), d.Context.Driver()
	n := d.RoundUp(1)
	private, err := dev.NewMemory(n, cuda.HandleNone)
	require.NoError(t, err)
	at, err := driver.Reserve(n, 0)
	require.NoError(t, err)
	require.NoError(t, driver.Map(at, n, private))
	require.NoError(t, driver.SetAccess(at, n, dev))
	_, err = d.Adopt(at, 100)
	require.ErrorIs(t, err, ErrShare)
	require.ErrorContains(t, err, "not made for descriptors")
	require.NoError(t, driver.Unmap(at, n))
	require.NoError(t, driver.Unreserve(at, n))
	require.NoError(t, private.Release())

	for _, bytes := range []int{0, -1, 1 << 50} {
		_, err = d.Alloc(bytes)
		require.ErrorIs(t, err, cuda.ErrInvalid)
	}
	_, err = d.Alloc(1 << 45)
	require.ErrorIs(t, err, cuda.OutOfMemory)
}

func TestAnothersDevice(t *testing.T) {
	all := ranks(t, 2)
	if all[0].UUID == all[1].UUID {
		t.Skip("only one CUDA device")
	}
	p, err := all[0].Context.Alloc(4096)
	require.NoError(t, err)
	defer func() { require.NoError(t, all[0].Context.Free(p)) }()
	_, err = all[1].Adopt(p, 100)
	require.ErrorIs(t, err, ErrShare)
	require.ErrorContains(t, err, "is memory of device 0, this rank has device 1")
}

func TestDevicesApart(t *testing.T) {
	if cudatest.Use(t) == nil {
		t.Skip("for the double alone")
	}
	t.Setenv("WEFT_DOUBLE_APART", "1")
	all := ranks(t, 2)
	m, err := all[0].Alloc(100)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Release()) }()
	x, err := m.Export(true)
	require.NoError(t, err)
	_, err = all[1].Import(x)
	require.ErrorIs(t, err, ErrUnreachable)
	x, err = m.Export(false)
	require.NoError(t, err)
	defer x.File.Close()
	_, err = all[1].Import(x)
	require.ErrorIs(t, err, ErrUnreachable)

	// As of a device that this process does not see.
	x.Data[40] ^= 0xff
	_, err = all[1].Import(x)
	require.ErrorIs(t, err, cuda.InvalidDevice, "what the driver says")
}

// TestLeaks fails each step of an allocation and of an import in turn: nothing may stay behind.
func TestLeaks(t *testing.T) {
	double := cudatest.Use(t)
	if double == nil {
		t.Skip("for the double alone")
	}
	d := ranks(t, 1)[0]
	m, err := d.Alloc(100)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Release()) }()
	x, err := m.Export(false)
	require.NoError(t, err)
	defer x.File.Close()

	undo := map[string]string{
		"cuMemCreate": "cuMemRelease", "cuMemImportFromShareableHandle": "cuMemRelease",
		"cuMemAddressReserve": "cuMemAddressFree", "cuMemMap": "cuMemUnmap",
	}
	alloc := func() error { _, err := d.Alloc(100); return err }
	imported := func() error { _, err := d.Import(x); return err }
	for _, tc := range []struct {
		do    func() error
		fails []string
	}{
		{alloc, []string{"cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess", "cuMemsetD8_v2", "cuCtxSynchronize"}},
		{imported, []string{"cuMemImportFromShareableHandle", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"}},
	} {
		for _, fails := range tc.fails {
			double.Calls()
			double.Fail(fails, int(cuda.OutOfMemory))
			require.ErrorIs(t, tc.do(), cuda.OutOfMemory)
			done := map[string]int{fails: -1}
			for _, call := range double.Calls() {
				name, _, _ := strings.Cut(call, " ")
				done[name]++
			}
			left := map[string]int{}
			for took, gave := range undo {
				left[gave] += done[took]
			}
			for gave, n := range left {
				require.Equal(t, n, done[gave], "calls of %s after %s failed", gave, fails)
			}
		}
	}
}

func TestMalformedExports(t *testing.T) {
	d := ranks(t, 1)[0]
	m, err := d.Alloc(100)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Release()) }()
	good, err := m.Export(false)
	require.NoError(t, err)
	defer good.File.Close()
	with := func(at int, v uint64) []byte {
		b := slices.Clone(good.Data)
		binary.LittleEndian.PutUint64(b[at:], v)
		return b
	}
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer file.Close()
	for name, x := range map[string]Export{
		"nothing":          {},
		"short":            {Data: good.Data[:len(good.Data)-1], File: good.File},
		"long":             {Data: append(slices.Clone(good.Data), 0), File: good.File},
		"magic":            {Data: with(0, 1), File: good.File},
		"kind 0":           {Data: with(8, 0), File: good.File},
		"kind 9":           {Data: with(8, 9), File: good.File},
		"no bytes":         {Data: with(16, 0), File: good.File},
		"bytes":            {Data: with(16, 1<<40), File: good.File},
		"offset":           {Data: with(24, 1<<40), File: good.File},
		"offset overflows": {Data: with(24, 1<<63), File: good.File},
		"whole":            {Data: with(32, 1<<63), File: good.File},
		"no file":          {Data: good.Data},
		"no ref":           {Data: with(8, uint64(kindRef))},
		"wrong ref":        {Data: with(8, uint64(kindRef)), Ref: "text"},
		"nil ref":          {Data: with(8, uint64(kindRef)), Ref: (*Memory)(nil)},
	} {
		_, err := d.Import(x)
		require.ErrorIs(t, err, ErrExport, name)
	}
	// These only the driver can refuse.
	for name, x := range map[string]Export{
		"another file": {Data: good.Data, File: file},
		"another size": {Data: with(32, 1<<30), File: good.File},
		"no handle":    {Data: with(8, uint64(kindIPC))},
	} {
		_, err := d.Import(x)
		var e *cuda.Error
		require.ErrorAs(t, err, &e, name)
	}
}
