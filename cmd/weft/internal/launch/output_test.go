package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// feed sends each text through a pipe of its own, one after the other.
func feed(t *testing.T, o *output, to *sink, texts ...string) {
	t.Helper()
	for i, text := range texts {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		o.copy(r, to, fmt.Sprintf("[%d] ", i))
		_, err = io.WriteString(w, text)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		o.copying.Wait()
	}
}

func TestOutput(t *testing.T) {
	long := strings.Repeat("x", 300<<10)
	for _, tc := range []struct {
		name   string
		prefix bool
		in     []string
		want   string
	}{
		{"lines", true, []string{"a\nb\n", "c\n"}, "[0] a\n[0] b\n[1] c\n"},
		{"empty line", true, []string{"\n"}, "[0] \n"},
		{"nothing", true, []string{"", ""}, ""},
		{"no final newline", true, []string{"a\nb", "c"}, "[0] a\n[0] b\n[1] c\n"},
		{"long line", true, []string{long, long + "\n"}, "[0] " + long + "\n[1] " + long + "\n"},
		{"plain", false, []string{"a\nb\n", "c\n"}, "a\nb\nc\n"},
		{"plain, one rank, as it is", false, []string{"a\nb"}, "a\nb"},
		{"plain, lines stay apart", false, []string{"a", "b"}, "a\nb"},
		{"other bytes", true, []string{"a\x00\xff\r\n"}, "[0] a\x00\xff\r\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			o := newOutput(&stdout, &stderr, tc.prefix)
			// One rank after the other only if none of them blocks on its pipe.
			if strings.Contains(tc.name, "long") {
				feedAtOnce(t, o, &o.stdout, tc.in...)
				got := strings.SplitAfter(stdout.String(), "\n")
				require.ElementsMatch(t, strings.SplitAfter(tc.want, "\n"), got)
			} else {
				feed(t, o, &o.stdout, tc.in...)
				require.Equal(t, tc.want, stdout.String())
			}
			o.close()
			require.Empty(t, stderr.String())
		})
	}
}

// feedAtOnce sends each text through a pipe of its own, all at the same time.
func feedAtOnce(t *testing.T, o *output, to *sink, texts ...string) {
	t.Helper()
	for i, text := range texts {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		o.copy(r, to, fmt.Sprintf("[%d] ", i))
		go func() {
			_, _ = io.WriteString(w, text)
			w.Close()
		}()
	}
	o.copying.Wait()
}

func TestOutputLinesStayWhole(t *testing.T) {
	for _, prefix := range []bool{true, false} {
		t.Run(fmt.Sprint("prefix=", prefix), func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			o := newOutput(&stdout, &stderr, prefix)
			var in []string
			want := map[string]int{}
			for i := range 8 {
				var b strings.Builder
				for k := range 2000 {
					line := fmt.Sprintf("rank %d line %d %s", i, k, strings.Repeat("y", k%97))
					b.WriteString(line + "\n")
					if prefix {
						line = fmt.Sprintf("[%d] %s", i, line)
					}
					want[line]++
				}
				in = append(in, b.String())
			}
			feedAtOnce(t, o, &o.stdout, in...)
			o.close()
			got := map[string]int{}
			for line := range strings.Lines(stdout.String()) {
				got[strings.TrimSuffix(line, "\n")]++
			}
			require.Equal(t, want, got)
		})
	}
}

func TestOutputVeryLongLine(t *testing.T) {
	var stdout, stderr bytes.Buffer
	o := newOutput(&stdout, &stderr, true)
	feedAtOnce(t, o, &o.stdout, strings.Repeat("z", maxLine+(1<<20)))
	o.close()
	require.Equal(t, 2, strings.Count(stdout.String(), "[0] z"))
	require.Equal(t, maxLine+(1<<20), strings.Count(stdout.String(), "z"))
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken") }

func TestOutputBrokenWriter(t *testing.T) {
	o := newOutput(brokenWriter{}, io.Discard, true)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	o.copy(r, &o.stdout, "[0] ")
	for err == nil { // the pipe must break too
		_, err = io.WriteString(w, "line\n")
	}
	require.NoError(t, w.Close())
	o.close()
}

func TestOutputPipeHeldOpen(t *testing.T) {
	var stdout bytes.Buffer
	o := newOutput(&stdout, io.Discard, true)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	o.copy(r, &o.stdout, "[0] ")
	_, err = io.WriteString(w, "last words")
	require.NoError(t, err)
	o.close() // returns though w is open
	require.Equal(t, "[0] last words\n", stdout.String())
}
