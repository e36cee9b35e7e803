//go:build (!amd64 && !arm64) || race

package release

import "sync/atomic"

// Store stores v at p after all that this goroutine stored before. The race detector
// is to know of it.
func Store(p *atomic.Uint64, v uint64) { p.Store(v) }

// Own asks for the line of p, to write it soon.
func Own(*atomic.Uint64) {}
