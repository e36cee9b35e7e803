//go:build race

package ranktest

// Race says that the race detector is on: all is some ten times slower, and what happens in
// one goroutine only is of no interest. The whole of every test is in the run without it.
const Race = true
