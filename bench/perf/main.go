// Command perf measures and checks weft's collectives, with any algorithm, with the flags
// and the table of nccl-tests. See bench/README.md.
package main

import (
	"os"

	"github.com/weft-go/weft/bench/internal/harness"
)

func main() { os.Exit(harness.Main("perf", "", os.Args[1:])) }
