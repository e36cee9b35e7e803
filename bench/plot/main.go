// Command plot makes pictures and a table of results: files of JSON lines as the
// benchmark programs and bench/peers write them.
//
//	plot -o DIR FILE.jsonl...
//
// For each collective and number of ranks there is a picture of time against
// size, NAME-Nranks.png and .svg; overview-Nranks has all collectives of a number
// of ranks, and table.md everything in numbers.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/weft-go/weft/bench/internal/record"
)

func main() {
	dir := flag.String("o", ".", "`folder` for what is made")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: plot [-o DIR] FILE.jsonl...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*dir, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

func run(dir string, files []string) error {
	var lines []record.Line
	for _, name := range files {
		l, err := record.ReadFile(name)
		if err != nil {
			return err
		}
		lines = append(lines, l...)
	}
	if len(lines) == 0 {
		return fmt.Errorf("no results in %d files", len(files))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	charts := group(lines)
	if err := os.WriteFile(filepath.Join(dir, "table.md"), []byte(markdown(charts, lines)), 0o644); err != nil {
		return err
	}
	return draw(dir, charts)
}
