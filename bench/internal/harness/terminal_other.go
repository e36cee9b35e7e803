//go:build !linux

package harness

import "os"

func isTerminal(*os.File) bool { return false }
