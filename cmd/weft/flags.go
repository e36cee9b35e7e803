package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// newFlagSet returns a flag set whose usage text begins with synopsis and text.
func newFlagSet(name, synopsis, text string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard) // parse says it, on the right stream
	fs.Usage = func() {
		fmt.Fprintf(fs.Output(), "usage: %s\n\n%s", synopsis, text)
		fs.VisitAll(func(f *flag.Flag) {
			typ, use := flag.UnquoteUsage(f)
			if typ != "" {
				typ = " " + typ
			}
			fmt.Fprintf(fs.Output(), "  -%s%s\n    \t%s\n", f.Name, typ, use)
		})
	}
	return fs
}

// parse parses args. If the command must not go on, done is true and status
// its exit status: help goes to stdout, a complaint and the usage to stderr.
func parse(fs *flag.FlagSet, args []string, stdout, stderr io.Writer) (status int, done bool) {
	// Parse itself calls Usage, which must stay silent until the stream is known.
	show := fs.Usage
	fs.Usage = func() {}
	err := fs.Parse(args)
	fs.Usage = show
	switch {
	case err == nil:
		return 0, false
	case errors.Is(err, flag.ErrHelp):
		fs.SetOutput(stdout)
		fs.Usage()
		return 0, true
	}
	return misuse(fs, stderr, err.Error()), true
}

// misuse complains about a wrong use of the command and shows the right one.
func misuse(fs *flag.FlagSet, stderr io.Writer, complaint string) int {
	fmt.Fprintf(stderr, "%s: %s\n", fs.Name(), complaint)
	fs.SetOutput(stderr)
	fs.Usage()
	return statusUsage
}
