package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTrainAlone(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine can't race")
	}
	images, err := loadDigits()
	require.NoError(t, err)
	for seed := range uint64(3) {
		train1, tests := split(images, seed)
		var epochs []epoch
		opt := options{epochs: 30, seed: seed}
		_, err = train(context.Background(), alone{}, train1, tests, opt, func(e epoch) { epochs = append(epochs, e) })
		require.NoError(t, err)
		require.Len(t, epochs, 30)
		last := epochs[29]
		require.GreaterOrEqual(t, last.accuracy, 0.95)
		require.Less(t, last.trainLoss, epochs[0].trainLoss/10)
	}
}

func TestMaxDifference(t *testing.T) {
	require.Equal(t, 0.5, maxDifference(params{1, 2, 3}, params{1, 2.5, 2.75}))
	require.True(t, math.IsNaN(maxDifference(params{1, 2, float32(math.NaN())}, params{1, 2, 3})))
}

func TestHash(t *testing.T) {
	p := newParams(1)
	h := p.hash()
	require.Equal(t, h, newParams(1).hash())
	p[numParams-1] = math.Nextafter32(p[numParams-1], 2)
	require.NotEqual(t, h, p.hash())
}

// trainOptions are the default options, or quicker ones where needed.
func trainOptions(ranks int) options {
	if raceEnabled {
		return options{ranks: ranks, epochs: 2, accuracy: 0.8, seed: 1, device: "auto"}
	}
	return options{ranks: ranks, epochs: 30, accuracy: 0.95, seed: 1, device: "auto"}
}

func TestRunLocal(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 4, 7} {
		if raceEnabled && ranks != 4 { // ranks are alike
			continue
		}
		t.Run(fmt.Sprint(ranks), func(t *testing.T) {
			var stdout strings.Builder
			err := runLocal(t.Context(), trainOptions(ranks), &stdout)
			require.NoError(t, err, stdout.String())
			requireResult(t, result{stdout: stdout.String()}, ranks)
		})
	}
}

func TestRunLocalNotLearnt(t *testing.T) {
	var stdout strings.Builder
	err := runLocal(t.Context(), options{ranks: 3, epochs: 1, accuracy: 0.95, seed: 1, device: "auto"}, &stdout)
	require.ErrorContains(t, err, "not learnt enough")
	require.NotContains(t, stdout.String(), "result")
}
