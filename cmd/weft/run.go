package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/weft-go/weft/cmd/weft/internal/launch"
)

const runText = `Starts N processes of PROGRAM on this machine as the ranks of one job; no MPI is
needed. Each line of their output is shown with the rank before it. When a rank
fails, the others are ended. The exit status is that of the rank that failed
first (128+n if signal n ended it), or 0.

Ctrl-C is passed on to the ranks. A second one kills them, and so does the
passing of five times -grace. If weft run itself is killed, so are its ranks, and
what they have started (unless that has left their process groups).

`

// runCommand implements "weft run".
func runCommand(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	fs := newFlagSet("weft run", "weft run -n N [flags] [--] PROGRAM [arguments]", runText)
	n := fs.Int("n", 0, "start `N` ranks")
	prefix := fs.Bool("prefix", true, "show the rank before each line; -prefix=false turns it off")
	keepGoing := fs.Bool("keep-going", false, "let the other ranks go on when one has failed")
	grace := fs.Duration("grace", 2*time.Second, "`time` from SIGTERM to SIGKILL when ranks are ended (default 2s)")
	timeout := fs.Duration("timeout", 0, "end the job after this `time`, with exit status 124")
	withStdin := fs.Bool("stdin", false, "give the standard input to rank 0")
	if status, done := parse(fs, args, stdout, stderr); done {
		return status
	}
	switch {
	case *n <= 0:
		return misuse(fs, stderr, "the number of ranks, -n, must be given and positive")
	case *grace < 0 || *timeout < 0:
		return misuse(fs, stderr, "a time can't be negative")
	case fs.NArg() == 0:
		return misuse(fs, stderr, "no program given")
	}
	if !*withStdin {
		stdin = nil
	}
	signals := make(chan os.Signal, 16)
	for _, s := range launch.ForwardedSignals {
		if !signal.Ignored(s) { // nohup and background jobs of a script
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	ignoreBrokenPipes()

	var guard []string
	if self, err := os.Executable(); err == nil {
		guard = []string{self, guardCommand}
	}
	status, err := launch.Run(launch.Config{
		Size:      *n,
		Prog:      fs.Arg(0),
		Args:      fs.Args()[1:],
		Env:       os.Environ(),
		Stdin:     stdin,
		Stdout:    stdout,
		Stderr:    stderr,
		Prefix:    *prefix,
		KeepGoing: *keepGoing,
		Grace:     *grace,
		Timeout:   *timeout,
		Guard:     guard,
		Signals:   signals,
	})
	if err != nil {
		fmt.Fprintf(stderr, "weft run: %v\n", err)
	}
	return status
}

// ignoreBrokenPipes lets the ranks meet a reader that has gone away, as they
// would without a launcher, instead of killing the launcher.
func ignoreBrokenPipes() {
	// Notify, not Ignore: an ignored signal stays ignored in the ranks.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}
