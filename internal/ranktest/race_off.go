//go:build !race

package ranktest

// Race says that the race detector is off.
const Race = false
