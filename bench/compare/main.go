// Command compare tells whether two runs agree: for each row that both files of
// JSON lines have, both times and both ratios to the peer with their spreads, and
// whether the intervals of value ± spread have a point in common.
//
//	compare [-turns] A.jsonl B.jsonl
//
// With -turns it prints B's time by A's instead, in the cycles of the same number: the
// runs took turns, so what makes the machine slower for a while meets both.
//
// The exit status is 0 however many rows agree.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/weft-go/weft/bench/internal/record"
)

func main() {
	turns := flag.Bool("turns", false, "the cycles of the two took turns: print their ratios")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: compare [-turns] A.jsonl B.jsonl")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(os.Stdout, flag.Arg(0), flag.Arg(1), *turns); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, nameA, nameB string, turns bool) error {
	a, err := record.ReadFile(nameA)
	if err != nil {
		return err
	}
	b, err := record.ReadFile(nameB)
	if err != nil {
		return err
	}
	c := compare(a, b)
	if len(c.rows) == 0 {
		return fmt.Errorf("%s and %s have no row in common", nameA, nameB)
	}
	if turns {
		return c.printTurns(w, nameA, nameB)
	}
	return c.print(w, nameA, nameB)
}
