// Command merge makes one run of several, as -N of the benchmark programs does:
// each file of JSON lines is one cycle, and lines of the same row become one. It
// is for programs that have no such flag.
//
//	merge -o FILE CYCLE.jsonl...
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/weft-go/weft/bench/internal/record"
)

func main() {
	out := flag.String("o", "", "`file` for the lines")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: merge -o FILE CYCLE.jsonl...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *out == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "merge:", err)
		os.Exit(1)
	}
}

// run reads all files before it writes, so that the output may be one of them.
func run(out string, files []string) (err error) {
	var order []record.Key
	cycles := map[record.Key][]*record.Line{}
	for _, name := range files {
		lines, err := record.ReadFile(name)
		if err != nil {
			return err
		}
		for i := range lines {
			key := lines[i].Key()
			if cycles[key] == nil {
				order = append(order, key)
			}
			cycles[key] = append(cycles[key], &lines[i])
		}
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := record.NewWriter(f)
	for _, key := range order {
		if err := w.Write(record.Merge(cycles[key])); err != nil {
			return err
		}
	}
	return nil
}
