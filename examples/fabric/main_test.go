package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport/fabric"
	"github.com/weft-go/weft/transport/fabric/faults"
)

var modes = []fabric.Mode{fabric.ModeDefault, fabric.ModeStrict, fabric.ModeFast}

// outcome runs the program and returns all that it says.
func outcome(args ...string) string {
	var out strings.Builder
	if err := run(args, &out); err != nil {
		fmt.Fprintln(&out, "fabric:", err)
	}
	return out.String()
}

const allRight = "8 messages of 1024 bytes in each direction, all right\n"

// TestRight: without a bug everything arrives, in every mode and under faults of
// every kind.
func TestRight(t *testing.T) {
	for _, mode := range modes {
		require.Contains(t, outcome("-mode", mode.String(), "-faults", ""), allRight)
		for _, kinds := range []string{"drop", "ack", "part", "late", "drop+ack+part+late"} {
			for seed := range 100 {
				plan := fmt.Sprintf("seed=%d,rate=0.4,kinds=%s", seed, kinds)
				require.Contains(t, outcome("-mode", mode.String(), "-faults", plan), allRight, "%v %s", mode, plan)
			}
		}
	}
}

// TestDead: a link that does not come back is an error, of the rank that sends.
func TestDead(t *testing.T) {
	for k := range messages {
		out := outcome("-faults", fmt.Sprintf("dead=1>0@%d", k))
		require.Contains(t, out, fmt.Sprintf("fabric: rank 1: message %d, 100 attempts: no clean report\n", k))
	}
}

// TestFence: only the sanitizer sees the fence that is missing.
func TestFence(t *testing.T) {
	for _, mode := range modes {
		var out bytes.Buffer
		err := exchange(&out, "fence", fabric.WithMode(mode), fabric.WithFaults(""))
		if mode != fabric.ModeStrict {
			require.NoError(t, err)
			continue
		}
		var broken *fabric.RuleError
		require.ErrorAs(t, err, &broken)
		require.Equal(t, fabric.RuleMissingAcquire, broken.Rule)
	}
}

// TestReplay: the faults that one run logged, as docs/fabric.md shows them, make
// another run the same, and each of them alone is enough for a hole in a message.
func TestReplay(t *testing.T) {
	plan, err := faults.Parse("seed=3,rate=0.4,kinds=part+late")
	require.NoError(t, err)
	injector, err := faults.New(plan)
	require.NoError(t, err)
	var log, out strings.Builder
	recorder := faults.NewRecorder(injector, faults.NewLog(&log).Add)
	first := exchange(&out, "recount", fabric.WithDecider(recorder))
	require.ErrorContains(t, first, "rank 0: message 1: byte")
	require.Contains(t, page(t), "```\n"+log.String()+"```\n")

	records, err := faults.ReadLog(strings.NewReader(log.String()))
	require.NoError(t, err)
	require.Len(t, records, 3)
	replayed := func(records []faults.Record) (string, error) {
		replay, err := faults.NewReplay(records)
		require.NoError(t, err)
		var out strings.Builder
		err = exchange(&out, "recount", fabric.WithDecider(replay))
		require.Zero(t, replay.Left())
		require.Zero(t, replay.Diverged())
		return out.String(), err
	}
	again, err := replayed(records)
	require.EqualError(t, err, first.Error())
	require.Equal(t, out.String(), again)
	for i := range records {
		_, err = replayed(records[i : i+1])
		require.ErrorContains(t, err, "is 0, not", "%v alone", records[i])
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{"-mode", "slow"}, {"-mode", "unknown mode"}, {"-bug", "all"}, {"more"}, {"-faults", "rate=2"}} {
		out := outcome(args...)
		require.NotContains(t, out, "right", "%q", args)
		require.Equal(t, 1, strings.Count(out, "\n"), "%q: %s", args, out)
	}
}

// page is the documentation of the fabric.
func page(t *testing.T) string {
	text, err := os.ReadFile("../../docs/fabric.md")
	require.NoError(t, err)
	return string(text)
}

// TestPageRuns: what docs/fabric.md shows of this program is what it does.
func TestPageRuns(t *testing.T) {
	t.Setenv(fabric.FaultsVariable, "")
	shown := regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(page(t), -1)
	require.NotEmpty(t, shown)
	runs := 0
	for _, block := range shown {
		for _, one := range strings.Split(block[1], "$ ")[1:] {
			command, want, _ := strings.Cut(one, "\n")
			args, found := strings.CutPrefix(command, "go run ./examples/fabric")
			require.True(t, found, "%s", command)
			require.Equal(t, want, outcome(strings.Fields(args)...), "%s", command)
			runs++
		}
	}
	require.GreaterOrEqual(t, runs, 5)
}

// TestPageFound: the page's table of how often a counted put that is repeated shows.
func TestPageFound(t *testing.T) {
	text := page(t)
	for _, kind := range []string{"drop", "ack", "part", "late"} {
		row := fmt.Sprintf("| `%s` |", kind)
		for _, mode := range []string{"default", "strict"} {
			found, hit := 0, 0
			for seed := 1; seed <= 100; seed++ {
				plan := fmt.Sprintf("seed=%d,rate=0.2,kinds=%s", seed, kind)
				out := outcome("-bug", "recount", "-mode", mode, "-faults", plan)
				if !strings.Contains(out, allRight) {
					found++
				}
				if strings.Contains(out, "was reported") {
					hit++
				}
			}
			require.Contains(t, text, fmt.Sprintf("%d hit a counted put", hit), "%s, %s", kind, mode)
			row += fmt.Sprintf(" %d |", found)
		}
		require.Contains(t, text, row)
	}
}

// TestPageRules: the page has every rule, with where it comes from and when it is
// checked, and no others.
func TestPageRules(t *testing.T) {
	type row struct{ section, checked string }
	rows := map[string]row{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| ([^|]+) \\| ([^|]+) \\| (always|strict|in part) \\|$").FindAllStringSubmatch(page(t), -1) {
		require.NotContains(t, rows, m[1])
		require.Greater(t, len(m[2]), 10, "%s is not explained", m[1])
		rows[m[1]] = row{m[3], m[4]}
	}
	want := map[string]row{}
	for _, r := range fabric.Rules() {
		checked := "always"
		switch r {
		case fabric.RuleCounterShared, fabric.RuleUnboundTarget, fabric.RuleNotSubmitted, fabric.RuleDropped:
			checked = "in part" // TestRules of the fabric has which
			require.False(t, r.Strict())
		}
		if r.Strict() {
			checked = "strict"
		}
		want[r.String()] = row{r.Section(), checked}
	}
	require.Equal(t, want, rows)
}
