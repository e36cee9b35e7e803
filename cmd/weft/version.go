package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// versionCommand implements "weft version".
func versionCommand(args []string, _ io.Reader, stdout, stderr io.Writer) int {
	fs := newFlagSet("weft version", "weft version", "Prints the version of this program.\n")
	if status, done := parse(fs, args, stdout, stderr); done {
		return status
	}
	if fs.NArg() > 0 {
		return misuse(fs, stderr, "no arguments expected")
	}
	version := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	fmt.Fprintf(stdout, "weft %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return 0
}
