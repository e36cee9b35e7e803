package comm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm/bootstrap"
	"github.com/weft-go/weft/transport/fabric/faults"
)

func TestConfigure(t *testing.T) {
	tests := []struct {
		name    string
		env     map[string]string
		opts    []Option
		timeout time.Duration
		bad     bool
	}{
		{"defaults", nil, nil, DefaultTimeout, false},
		{"environment", map[string]string{"WEFT_TIMEOUT": "30s", "WEFT_TRANSPORT": "Pointer"}, nil, 30 * time.Second, false},
		{"options win", map[string]string{"WEFT_TIMEOUT": "30s"}, []Option{WithTimeout(time.Second)}, time.Second, false},
		{"wrong, but options win", map[string]string{"WEFT_TIMEOUT": "30", "WEFT_TRANSPORT": "pigeon", "WEFT_FAULTS": "rate=often", "WEFT_FAULTS_LOG": "/x",
			"WEFT_REROUTE": "sea", "WEFT_COMMIT": "often", "WEFT_DEVICE": "one", "WEFT_LOG": "loud"},
			[]Option{WithTimeout(time.Second), WithTransport("pointer"), WithFaults(""), WithFaultLog(""), WithReroute(true), WithCommit(), WithDevice(0),
				WithLogger(slog.New(slog.DiscardHandler))}, time.Second, false},
		{"a wrong option", map[string]string{"WEFT_TIMEOUT": "30s"}, []Option{WithTimeout(0)}, 0, true},
		{"not a duration", map[string]string{"WEFT_TIMEOUT": "30"}, nil, 0, true},
		{"negative", map[string]string{"WEFT_TIMEOUT": "-3s"}, nil, 0, true},
		{"zero", nil, []Option{WithTimeout(0)}, 0, true},
		{"unknown transport", map[string]string{"WEFT_TRANSPORT": "carrier pigeon"}, nil, 0, true},
		{"unknown level", map[string]string{"WEFT_LOG": "loud"}, nil, 0, true},
		{"nil option", nil, []Option{nil}, 0, true},
		{"nil logger", nil, []Option{WithLogger(nil)}, 0, true},
		{"fabric", map[string]string{"WEFT_TRANSPORT": "fabric:fast", "WEFT_FAULTS": "seed=1,rate=0.01"}, nil, DefaultTimeout, false},
		{"faults need a fabric", map[string]string{"WEFT_TRANSPORT": "pointer", "WEFT_FAULTS": "rate=0.01"}, nil, 0, true},
		{"faults by option", nil, []Option{WithTransport("pointer"), WithFaults("rate=0.01")}, 0, true},
		{"no detours", map[string]string{"WEFT_REROUTE": "0"}, nil, DefaultTimeout, false},
		{"some ways", map[string]string{"WEFT_REROUTE": "pointer, alias"}, nil, DefaultTimeout, false},
		{"no such way", map[string]string{"WEFT_REROUTE": "alias,sea"}, nil, 0, true},
		{"no such way by option", nil, []Option{WithRerouteBy("sea")}, 0, true},
		{"detours or not", map[string]string{"WEFT_REROUTE": "maybe"}, nil, 0, true},
		{"kernels", map[string]string{"WEFT_KERNELS": "avx2"}, nil, DefaultTimeout, false},
		{"no such kernels", map[string]string{"WEFT_KERNELS": "sse"}, nil, 0, true},
		{"a log of faults", nil, []Option{WithTransport("fabric"), WithFaultLog("x")}, DefaultTimeout, false},
		{"a log of no faults", map[string]string{"WEFT_FAULTS_LOG": "/x"}, nil, 0, true},
		{"no such faults", nil, []Option{WithTransport("fabric"), WithFaults("rate=often")}, 0, true},
		{"commit", map[string]string{"WEFT_COMMIT": "1"}, nil, DefaultTimeout, false},
		{"no such device", map[string]string{"WEFT_DEVICE": "one"}, nil, 0, true},
		{"no such commit", map[string]string{"WEFT_COMMIT": "often"}, nil, 0, true},
		{"all", map[string]string{"WEFT_LOG": "error"}, []Option{WithTransport("auto"), WithLogger(slog.New(slog.DiscardHandler))}, DefaultTimeout, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := configure(tt.opts, func(name string) string { return tt.env[name] })
			if tt.bad {
				require.ErrorIs(t, err, ErrArgument)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.timeout, s.timeout)
			require.NotNil(t, s.logger)
		})
	}
	_, err := Local(0)
	require.ErrorIs(t, err, ErrArgument)
	_, err = Local(2, WithTimeout(-1))
	require.ErrorIs(t, err, ErrArgument)
}

// TestCommitSetting: by option or environment, for communicators of several ranks.
func TestCommitSetting(t *testing.T) {
	for _, tt := range []struct {
		env  string
		opts []Option
		want bool
	}{{"", nil, false}, {"1", nil, true}, {"0", nil, false}, {"", []Option{WithCommit()}, true}, {"0", []Option{WithCommit()}, true}} {
		s, err := configure(tt.opts, func(name string) string { return map[string]string{"WEFT_COMMIT": tt.env}[name] })
		require.NoError(t, err)
		require.Equal(t, tt.want, s.commit)
	}
}

// TestRerouteSetting: the same ways, however they are given.
func TestRerouteSetting(t *testing.T) {
	for _, tt := range []struct {
		env  string
		opts []Option
		want string
	}{
		{"", nil, "1"}, {"0", nil, "0"}, {"true", nil, "1"}, {"pointer,alias", nil, "alias,pointer"}, {"alias,channel,pointer", nil, "1"},
		{"channel", []Option{WithReroute(false)}, "0"}, {"0", []Option{WithRerouteBy(ByPointer, ByPointer)}, "pointer"},
		{"", []Option{WithRerouteBy()}, "0"}, {"0", []Option{WithReroute(true)}, "1"},
	} {
		s, err := configure(tt.opts, func(name string) string { return map[string]string{"WEFT_REROUTE": tt.env}[name] })
		require.NoError(t, err)
		require.Equal(t, tt.want, s.reroute.String(), "%+v", tt)
	}
}

// TestFaultsChooseFabric: a plan of faults is enough for a program to run on what
// can fail.
func TestFaultsChooseFabric(t *testing.T) {
	s, err := configure(nil, func(name string) string { return map[string]string{"WEFT_FAULTS": "rate=0.5"}[name] })
	require.NoError(t, err)
	require.Equal(t, "fabric", s.transport)
}

// TestFaultsOfOthers: a plan that names ranks which the job has not is an error on all
// ranks.
func TestFaultsOfOthers(t *testing.T) {
	for _, plan := range []string{"rate=0.5,links=0>9", "dead=4>0@5"} {
		s, err := configure([]Option{WithFaults(plan)}, func(string) string { return "" })
		require.NoError(t, err)
		errs := make(chan error)
		for _, ch := range bootstrap.Local(4) {
			go func() {
				_, err := start(context.Background(), ch, true, s)
				errs <- err
			}()
		}
		for range 4 {
			err := <-errs
			require.ErrorIs(t, err, ErrArgument)
			var wrong *faults.PlanError
			require.ErrorAs(t, err, &wrong)
			require.Contains(t, wrong.Why, "ranks are 0 to 3")
		}
	}
}

// TestSettingsDiffer: ranks with different settings don't start.
func TestSettingsDiffer(t *testing.T) {
	for _, tt := range []struct {
		o    Option
		text string
	}{
		{WithAlgorithm("ring"), `WEFT_ALGO is "" on rank 0 and "ring" on rank 2`},
		{WithTransport("fabric"), `WEFT_TRANSPORT is "auto" on rank 0 and "fabric" on rank 2`},
		{WithReroute(false), `WEFT_REROUTE is "1" on rank 0 and "0" on rank 2`},
		{WithRerouteBy(ByChannel, ByAlias), `WEFT_REROUTE is "1" on rank 0 and "alias,channel" on rank 2`},
		{WithFaults("rate=0.01"), `WEFT_FAULTS is "" on rank 0 and "rate=0.01" on rank 2`},
		{WithCommit(), `WEFT_COMMIT is "0" on rank 0 and "1" on rank 2`},
	} {
		none := func(string) string { return "" }
		s, err := configure(nil, none)
		require.NoError(t, err)
		other, err := configure([]Option{tt.o}, none)
		require.NoError(t, err)
		errs := make(chan error)
		for r, ch := range bootstrap.Local(3) {
			mine := s
			if r == 2 {
				mine = other
			}
			go func() {
				_, err := start(context.Background(), ch, true, mine)
				errs <- err
			}()
		}
		for range 3 {
			err := <-errs
			require.ErrorIs(t, err, ErrMismatch)
			require.ErrorContains(t, err, tt.text)
		}
	}
}

// TestWrongOnOneRank: what one rank sees only once the ranks have met, all get as the
// same error, which names it.
func TestWrongOnOneRank(t *testing.T) {
	none := func(string) string { return "" }
	nowhere := filepath.Join(t.TempDir(), "missing")
	for _, tt := range []struct {
		o    Option
		text string
	}{
		{WithFaults("links=0>9,rate=0.5"), "ranks are 0 to 2"},
		{WithFaults("@" + nowhere), nowhere + ".2: no such file"},
		{WithFaultLog(filepath.Join(nowhere, "log")), "log of faults: open " + nowhere + "/log.2"},
	} {
		s, err := configure([]Option{WithTransport("fabric")}, none)
		require.NoError(t, err)
		wrong, err := configure([]Option{WithTransport("fabric"), tt.o}, none)
		require.NoError(t, err)
		errs := make([]error, 3)
		var ranks sync.WaitGroup
		for r, ch := range bootstrap.Local(3) {
			mine := s
			if r == 2 {
				mine = wrong
			}
			ranks.Go(func() { _, errs[r] = start(context.Background(), ch, true, mine) })
		}
		ranks.Wait()
		for r, err := range errs {
			var abort *AbortError
			require.ErrorAs(t, err, &abort)
			require.Equal(t, []any{2, ReasonFailed}, []any{abort.Origin, abort.Reason})
			require.ErrorContains(t, err, fmt.Sprintf("weft: Init: rank %d: failed on rank 2: ", r))
			require.ErrorContains(t, err, tt.text)
			require.Equal(t, r == 2, errors.Is(err, ErrArgument))
		}
	}
}
