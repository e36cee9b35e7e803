package cuda

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
)

// The offsets that the compiler has found are those of the types in Go.
func TestLayout(t *testing.T) {
	ptx, _, err := Image(12, 0, 13000)
	require.NoError(t, err)
	m := regexp.MustCompile(`weft_layout\[\d+\] = \{([^}]*)\}`).FindSubmatch(ptx)
	require.NotNil(t, m, "weft_layout in the PTX")
	var compiled []byte
	for _, s := range strings.Split(string(m[1]), ",") {
		v, err := strconv.ParseUint(strings.TrimSpace(s), 10, 8)
		require.NoError(t, err)
		compiled = append(compiled, byte(v))
	}
	var want []byte
	for _, v := range layout() {
		want = binary.LittleEndian.AppendUint32(want, v)
	}
	require.LessOrEqual(t, len(compiled), len(want))
	compiled = append(compiled, make([]byte, len(want)-len(compiled))...) // zeros at the end are left out
	require.Equal(t, compiled, want)
}

// Every kernel that Go names is in every image, and each device gets the best that its driver
// takes.
func TestImages(t *testing.T) {
	for _, c := range []struct {
		major, minor, driver int
		machine              int // the architecture of machine code, 0: PTX
		early                bool
	}{
		{8, 0, 12060, 80, false}, {8, 6, 13000, 80, false}, {9, 0, 12060, 90, true}, {9, 0, 13000, 90, true},
		{10, 0, 12080, 0, false}, {10, 0, 13000, 100, true}, {10, 3, 13020, 100, true}, {12, 1, 13000, 0, false},
	} {
		image, early, err := Image(c.major, c.minor, c.driver)
		require.NoError(t, err)
		require.Equal(t, c.early, early, c)
		for _, name := range Names() {
			require.True(t, bytes.Contains(image, []byte(name)), "%s for %v", name, c)
		}
		if c.machine == 0 {
			require.Contains(t, string(image[:1000]), ".target sm_80")
			continue
		}
		require.Equal(t, "\x7fELF", string(image[:4]))
		require.Equal(t, uint16(190), binary.LittleEndian.Uint16(image[18:]), "machine code of CUDA")
		flags := binary.LittleEndian.Uint32(image[48:])
		if c.machine >= 100 { // newer compilers have it elsewhere
			flags >>= 8
		}
		require.Equal(t, uint8(c.machine), uint8(flags), "architecture in the ELF flags")
	}
	_, _, err := Image(7, 5, 13000)
	require.Error(t, err)
}

func TestSupports(t *testing.T) {
	require.True(t, Supports(kernels.TypeFloat8E5M2, kernels.Avg))
	require.False(t, Supports(kernels.TypeComplex64, kernels.Sum))
	require.False(t, Supports(kernels.TypeInt32, kernels.BitAnd))
}

// A communicator takes less than 64 MiB of a device, and with two ranks 20.
func TestSegmentBytes(t *testing.T) {
	for ranks := 1; ranks <= MaxRanks; ranks++ {
		require.Less(t, SegmentBytes(ranks, MaxLanes), 64<<20, "%d ranks", ranks)
	}
	require.LessOrEqual(t, SegmentBytes(2, MaxLanes), 20<<20)
}

// All blocks of two communicators' collectives, or of one's messages, are on a device at once,
// of which two fit a multiprocessor.
func TestLanes(t *testing.T) {
	require.Equal(t, 16, Lanes(132, 8))
	require.Equal(t, MaxLanes, Lanes(132, 1))
	require.Equal(t, 1, Lanes(4, 16))
	require.Equal(t, MailLanes, MailBlocks(MaxLanes))
	for ranks := 1; ranks <= MaxRanks; ranks++ {
		for _, multiprocessors := range []int{MaxRanks, 108, 132, 148} {
			lanes := Lanes(multiprocessors, ranks)
			require.LessOrEqual(t, ranks*2*lanes, 2*multiprocessors)
			require.LessOrEqual(t, ranks*2*MailBlocks(lanes), 2*multiprocessors)
			require.Zero(t, MailLanes%MailBlocks(lanes))
		}
	}
}
