package harness

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// partBytes is the least that is worth a goroutine.
const partBytes = 1 << 20

// inParts has f called for all parts of b, by several goroutines, and adds up what it returns.
// from is the number of elements before a part.
func inParts(b []byte, elem int, f func(part []byte, from int64) int64) int64 {
	elements := len(b) / elem
	parts := max(1, min(runtime.GOMAXPROCS(0), len(b)/partBytes))
	var sum atomic.Int64
	var wg sync.WaitGroup
	for i := range parts {
		first, last := elements*i/parts, elements*(i+1)/parts
		wg.Go(func() { sum.Add(f(b[first*elem:last*elem], int64(first))) })
	}
	wg.Wait()
	return sum.Load()
}
