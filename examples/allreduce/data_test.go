package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLoadDigits(t *testing.T) {
	images, err := loadDigits()
	require.NoError(t, err)
	require.Len(t, images, 1797)
	count := make([]int, classes)
	for _, im := range images {
		count[im.label]++
		for _, v := range im.pixels {
			require.True(t, v >= 0 && v <= 1)
		}
	}
	require.Equal(t, []int{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}, count)
	require.Equal(t, []float32{0, 0, 5. / 16, 13. / 16, 9. / 16, 1. / 16, 0, 0}, images[0].pixels[:8])
}

func TestReadDigits(t *testing.T) {
	good := strings.Repeat("0g", pixels/2) + "7"
	for _, tc := range []struct{ name, in, err string }{
		{"good", good + "\n" + good + "\n", ""},
		{"short", good + "\n" + good[1:], "line 2: 64 characters"},
		{"pixel", strings.Replace(good, "g", "h", 1), `line 1: bad pixel 'h'`},
		{"label", good[:pixels] + "a", `line 1: bad label 'a'`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			images, err := readDigits(strings.NewReader(tc.in))
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Len(t, images, 2)
			require.Equal(t, 7, images[1].label)
		})
	}
}

func TestSplitAndShare(t *testing.T) {
	images, err := loadDigits()
	require.NoError(t, err)
	train, test := split(images, 1)
	require.Len(t, train, 1437)
	require.Len(t, test, 360)
	count := map[image]int{}
	for _, im := range images {
		count[im]++
	}
	for _, im := range append(append([]image{}, train...), test...) {
		count[im]--
	}
	for _, n := range count {
		require.Zero(t, n)
	}
	again, _ := split(images, 1)
	require.Equal(t, train, again)
	other, _ := split(images, 2)
	require.NotEqual(t, train, other)

	for size := 1; size <= 5; size++ {
		for k, im := range train {
			own := share(train, k%size, size)
			require.Equal(t, im, own[k/size])
			if k > 100 {
				break
			}
		}
	}
}
