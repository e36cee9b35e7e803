//go:build (amd64 || arm64) && !race

package progress

import "sync/atomic"

// storeWord stores v at p after all that this goroutine stored before, as others see
// it, and does not wait until they do.
//
//go:noescape
func storeWord(p *atomic.Uint64, v uint64)

// ownLines asks for n > 0 lines from p on, to write them soon: another rank read them
// last, and to wait for them only then would take as long as a message.
//
//go:noescape
func ownLines(p *byte, n int)
