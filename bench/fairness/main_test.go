package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/ranktest"
)

func TestMain(m *testing.M) {
	ranktest.Main(m, map[string]func() error{"fairness": func() error {
		if status := run(strings.Fields(os.Getenv("WEFT_TEST_ARGS")), os.Stdout, os.Stderr); status != 0 {
			return fmt.Errorf("status %d", status)
		}
		return nil
	}})
}

// TestRuns: more ranks than most machines for tests have processors, with all that the
// program writes.
func TestRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.jsonl")
	j := ranktest.Start(t, 8, "fairness", "WEFT_TEST_ARGS=-d 1s -phase 200ms -e 64K -json "+file)
	require.Error(t, j.Ranks[0].Wait(time.Minute), "64K is no number")
	j = ranktest.Start(t, 8, "fairness", "WEFT_TEST_ARGS=-d 1s -phase 200ms -e 65536 -json "+file)
	j.Succeed(t, 2*time.Minute)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	require.Len(t, lines, 9)
	sum := int64(0)
	for i, l := range lines[:8] {
		var r report
		require.NoError(t, json.Unmarshal([]byte(l), &r))
		require.Equal(t, i, r.Rank)
		require.Positive(t, r.Calls)
		require.Positive(t, r.LongestMs)
		sum += r.Calls
	}
	var v verdict
	require.NoError(t, json.Unmarshal([]byte(lines[8]), &v))
	require.Equal(t, 8, v.Ranks)
	require.GreaterOrEqual(t, v.Seconds, 1.0)
	require.Greater(t, v.Calls, sum, "those of all ranks at once count too")
	for _, r := range []float64{v.Ratio, v.PhaseRatio, v.CPURatio} {
		require.GreaterOrEqual(t, r, 1.0)
	}
	require.NotEmpty(t, v.Env.Go)
	require.Contains(t, j.Ranks[0].Output(), "# fastest by slowest: ")
}

// local makes the ranks' calls as goroutines.
func local(t *testing.T, n int, s settings) (string, []error) {
	cs, err := comm.Local(n)
	require.NoError(t, err)
	errs, outs := make([]error, n), make([]bytes.Buffer, n)
	var wg sync.WaitGroup
	for i, c := range cs {
		wg.Go(func() {
			if errs[i] = measure(t.Context(), c, &s, &outs[i]); errs[i] == nil {
				errs[i] = c.Close()
			}
		})
	}
	wg.Wait()
	return outs[0].String(), errs
}

func TestLimits(t *testing.T) {
	for n := 1; n <= 5; n++ {
		out, errs := local(t, n, settings{duration: 20 * time.Millisecond, phase: 5 * time.Millisecond, maxBytes: 4096})
		require.NoError(t, errors.Join(errs...))
		require.Contains(t, out, fmt.Sprintf("# %d ranks", n))
	}
	_, errs := local(t, 2, settings{duration: 1, phase: 1, maxBytes: 64, stall: 1})
	for _, err := range errs {
		require.ErrorContains(t, err, "a call took")
	}
	_, errs = local(t, 4, settings{duration: 1, phase: 1, maxBytes: 64, ratio: 0.5})
	for _, err := range errs {
		require.ErrorContains(t, err, "times the calls")
	}
}

func TestGroups(t *testing.T) {
	for ranks := 1; ranks <= 17; ranks++ {
		for phase := range 60 {
			size := groupSizes[phase%len(groupSizes)]
			members := map[int]int{}
			for r := range ranks {
				members[colorOf(r, ranks, size, phase)]++
			}
			if size == 0 || ranks < 2*size {
				require.Equal(t, map[int]int{0: ranks}, members)
				continue
			}
			for _, n := range members {
				require.GreaterOrEqual(t, n, size, "%d ranks, phase %d", ranks, phase)
				require.Less(t, n, 2*size)
			}
		}
	}
	require.NotEqual(t, colorOf(1, 8, 2, 0) == colorOf(0, 8, 2, 0), colorOf(1, 8, 2, 6) == colorOf(0, 8, 2, 6), "other neighbours")
	require.Equal(t, 3.0, ratio([]int64{6, 2, 3}))
	require.Equal(t, 1.0, ratio([]int64{0, 0}))
	require.Equal(t, 1e9, ratio([]float64{0, 2}))
}

// TestChecks: results are right, and found to be wrong if a rank contributes what it
// should not.
func TestChecks(t *testing.T) {
	cs, err := comm.Local(1)
	require.NoError(t, err)
	defer cs[0].Close()
	two, err := comm.Local(2)
	require.NoError(t, err)
	for kind := range kinds {
		c := newCaller(cs[0], 1, 1, 64, make([]int32, 16), make([]int32, 16))
		require.NoError(t, c.call(context.Background(), kind, 0, 16), kind)
		for other := range 2 {
			errs := make([]error, 2)
			var wg sync.WaitGroup
			for i := range two {
				wg.Go(func() {
					c := newCaller(two[i], 1, 1, 64, make([]int32, 32), make([]int32, 32))
					if i == 0 {
						c.calls = other
					}
					errs[i] = c.call(t.Context(), kind, 0, 16)
				})
			}
			wg.Wait()
			require.Equal(t, other == 1 && kind != barrier, errors.Join(errs...) != nil, "kind %d: %v", kind, errs)
		}
	}
	for _, c := range two {
		require.NoError(t, c.Close())
	}
	for i := range 20 {
		c := &caller{calls: i}
		require.Equal(t, c.value(0, i)+c.value(1, i)+c.value(2, i), c.sum(3, i))
	}
}

func TestFlags(t *testing.T) {
	for _, args := range []string{"x", "-d 0s", "-phase -1s", "-e 4", "-ratio -1", "-stall -1s", "-nothing"} {
		_, err := parse(strings.Fields(args), io.Discard)
		require.Error(t, err, args)
	}
	s, err := parse(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 10*time.Minute, s.duration)
}
