// Command tree measures and checks weft's collectives, with the algorithm tree only, with the flags
// and the table of nccl-tests. See bench/README.md.
package main

import (
	"os"

	"github.com/weft-go/weft/bench/internal/harness"
)

func main() { os.Exit(harness.Main("tree", "tree", os.Args[1:])) }
