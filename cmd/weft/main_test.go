package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// beWeft makes the test binary act as the weft command.
const beWeft = "TEST_BE_WEFT"

func TestMain(m *testing.M) {
	if os.Getenv(beWeft) != "" || len(os.Args) == 2 && os.Args[1] == guardCommand {
		os.Unsetenv(beWeft) // not for the ranks
		main()
	}
	os.Exit(m.Run())
}

func TestUsage(t *testing.T) {
	for _, tc := range []struct {
		args           string
		status         int
		stdout, stderr string // contained
	}{
		{"", 2, "", "usage: weft COMMAND"},
		{"help", 0, "usage: weft COMMAND", ""},
		{"-h", 0, "usage: weft COMMAND", ""},
		{"help run", 0, "usage: weft run", ""},
		{"help nonsense", 2, "", `unknown command "nonsense"`},
		{"nonsense", 2, "", `unknown command "nonsense"`},
		{"version", 0, "weft ", ""},
		{"version x", 2, "", "usage: weft version"},
		{"run -h", 0, "usage: weft run", ""},
		{"run", 2, "", "usage: weft run"},
		{"run -n 2", 2, "", "no program given"},
		{"run true", 2, "", "number of ranks"},
		{"run -n 0 true", 2, "", "number of ranks"},
		{"run -n -1 true", 2, "", "number of ranks"},
		{"run -n x true", 2, "", "invalid value"},
		{"run -n 2 -nonsense true", 2, "", "-nonsense"},
		{"run -n 2 -grace -1s true", 2, "", "negative"},
		{"run -n 2 ./no-such-program", 127, "", "no-such-program"},
		{"run -n 2 no-such-program", 127, "", "no-such-program"},
		{"run -n 2 ./main_test.go", 126, "", "permission denied"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			status := weft(strings.Fields(tc.args), nil, &stdout, &stderr)
			require.Equal(t, tc.status, status, stderr.String())
			for got, want := range map[*bytes.Buffer]string{&stdout: tc.stdout, &stderr: tc.stderr} {
				require.Contains(t, got.String(), want)
				if want == "" {
					require.Empty(t, got.String())
				}
			}
		})
	}
}
