//go:build race

package collectives

const raceEnabled = true

// sampled returns one of all, always the same for a key. The race detector is about which
// goroutine uses which memory when, which operators, types and counts have in common:
// every path that goroutines take is to be in its run once, and the whole space is in
// the run without it.
func sampled[T any](all []T, key int) []T {
	if len(all) == 0 {
		return nil
	}
	k := key % len(all)
	return all[k : k+1]
}
