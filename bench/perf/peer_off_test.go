//go:build !mpi

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/internal/ranktest"
)

func TestPeerNeedsTag(t *testing.T) {
	for _, peer := range []string{"mpi", "empi"} {
		j := ranktest.Start(t, 1, "perf", "WEFT_TEST_ARGS=-peer "+peer)
		err := j.Ranks[0].Wait(time.Minute)
		require.NotErrorIs(t, err, ranktest.ErrRunning)
		require.Error(t, err)
		require.Contains(t, j.Ranks[0].Output(), "build it with -tags mpi")
	}
}
