package harness

import (
	"fmt"
	"os"
)

// progress shows on a terminal what is being measured, in a line that goes away.
type progress struct{ terminal *os.File }

func newProgress(f *os.File) progress {
	if !isTerminal(f) {
		f = nil
	}
	return progress{f}
}

func (p progress) show(format string, args ...any) {
	if p.terminal != nil {
		fmt.Fprintf(p.terminal, "\r\x1b[K# "+format, args...)
	}
}

func (p progress) clear() {
	if p.terminal != nil {
		fmt.Fprint(p.terminal, "\r\x1b[K")
	}
}
