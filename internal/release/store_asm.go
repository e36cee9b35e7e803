//go:build (amd64 || arm64) && !race

package release

import "sync/atomic"

// Store stores v at p after all that this goroutine stored before, as others see
// it, and does not wait until they do.
//
//go:noescape
func Store(p *atomic.Uint64, v uint64)

// Own asks for the line of p, to write it soon: another processor has read it last, and
// to wait for it only then would take as long as a message.
//
//go:noescape
func Own(p *atomic.Uint64)
