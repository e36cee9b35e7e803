//go:build race

package main

// raceEnabled says that arithmetic is some 20 times slower than usual.
const raceEnabled = true
