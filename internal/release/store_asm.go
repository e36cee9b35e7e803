//go:build (amd64 || arm64) && !race

package release

import "sync/atomic"

// Store stores v at p after all that this goroutine stored before, as others see
// it, and does not wait until they do.
//
//go:noescape
func Store(p *atomic.Uint64, v uint64)
