//go:build !linux || android || !(amd64 || arm64) || nocuda

package dl

import "errors"

const Built = false

// Open fails.
func Open(string) (uintptr, error) {
	return 0, errors.New("this program can't load libraries")
}

// Symbol finds nothing.
func Symbol(uintptr, string) uintptr { return 0 }

// Call has nothing to call, as Symbol finds nothing.
func Call(uintptr, ...uintptr) uintptr { panic("dl: call of a function that was never loaded") }
