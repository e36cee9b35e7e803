//go:build amd64 || arm64

package progress

// spinPause executes n processor pauses.
//
//go:noescape
func spinPause(n int)
