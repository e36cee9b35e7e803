//go:build !race

package collectives

const raceEnabled = false

// sampled returns all; see the race detector's.
func sampled[T any](all []T, _ int) []T { return all }
