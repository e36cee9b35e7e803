// Command fairness has ranks make mixed calls for a while, in groups that each go as
// fast as they can, and says how far each rank got: whether all get a like share of
// too few processors. See bench/README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/weft-go/weft/comm"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// settings are what the flags say.
type settings struct {
	duration, phase time.Duration
	maxBytes        int
	seed            uint64
	json            string
	ratio           float64
	stall           time.Duration
	args            []string
}

func parse(args []string, out io.Writer) (s settings, err error) {
	fs := flag.NewFlagSet("fairness", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.DurationVar(&s.duration, "d", 10*time.Minute, "`time` that calls are made")
	fs.DurationVar(&s.phase, "phase", 5*time.Second, "`time` after which other ranks make up the groups")
	fs.IntVar(&s.maxBytes, "e", 1<<20, "most `bytes` of a block; sizes are drawn evenly by their logarithm, from 8 on")
	fs.Uint64Var(&s.seed, "seed", 1, "`number` that says which calls are made")
	fs.StringVar(&s.json, "json", "", "`file` for the results, one JSON object per line")
	fs.Float64Var(&s.ratio, "ratio", 0, "fail if the fastest rank made more than so many `times` the calls of the slowest; 0: whatever it is")
	fs.DurationVar(&s.stall, "stall", 0, "fail if a call took longer than this `time`; 0: however long")
	if err := fs.Parse(args); err != nil {
		return s, err
	}
	s.args = args
	switch {
	case fs.NArg() > 0:
		err = fmt.Errorf("unexpected %q", fs.Arg(0))
	case s.duration <= 0 || s.phase <= 0:
		err = errors.New("-d and -phase must be more than 0")
	case s.maxBytes < leastBytes || s.maxBytes > 1<<30:
		err = fmt.Errorf("-e must be from %d to %d", leastBytes, 1<<30)
	case s.ratio < 0 || s.stall < 0:
		err = errors.New("-ratio and -stall can't be negative")
	}
	return s, err
}

// run returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	s, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "fairness: %v\n", err)
		return 2
	}
	ctx := context.Background()
	c, err := comm.Init(ctx)
	if err == nil {
		if err = measure(ctx, c, &s, stdout); err != nil {
			c.Abort(err)
		}
		err = errors.Join(err, c.Close())
	}
	if err != nil {
		fmt.Fprintf(stderr, "fairness: %v\n", err)
		return 1
	}
	return 0
}
