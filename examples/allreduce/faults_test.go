package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var digests = regexp.MustCompile(` digest=([0-9a-f]{16})\n$`)

// TestSameBits trains over fabrics that fail all the time: the parameters are, to the
// bit, those of a training on mapped memory, where nothing can fail.
func TestSameBits(t *testing.T) {
	const ranks = 3
	args := []string{"-epochs", "3", "-accuracy", "0.5"}
	want := ""
	for _, l := range []struct {
		name   string
		launch func(t *testing.T) launcher
	}{
		{"no launcher", func(*testing.T) launcher { return func(int) []string { return nil } }},
		{"weft run", weftRun},
		{"mpirun", mpirun},
	} {
		if raceEnabled && l.name == "mpirun" { // TestMpirun has it, and processes start alike
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			launcher := l.launch(t)
			for _, transport := range []string{"pointer", "fabric", "fabric:fast"} {
				log := filepath.Join(t.TempDir(), "faults")
				t.Setenv("WEFT_TRANSPORT", transport)
				if transport != "pointer" {
					t.Setenv("WEFT_FAULTS", "seed=1,rate=0.05")
					t.Setenv("WEFT_FAULTS_LOG", log)
				} else {
					t.Setenv("WEFT_FAULTS", "")
					t.Setenv("WEFT_FAULTS_LOG", "")
				}
				r := program(t, launcher(ranks), append(args, "-ranks", "3")...)
				requireResult(t, r, ranks)
				digest := digests.FindStringSubmatch(r.stdout)
				require.NotNil(t, digest, r.stdout)
				if want == "" {
					want = digest[1]
				}
				require.Equal(t, want, digest[1], transport)
				if transport != "pointer" {
					faults, err := os.ReadFile(log + ".0")
					require.NoError(t, err)
					require.Greater(t, strings.Count(string(faults), "\n"), 5)
				}
			}
		})
	}
}
