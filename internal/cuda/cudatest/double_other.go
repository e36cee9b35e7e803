//go:build !linux || android || !(amd64 || arm64) || nocuda

package cudatest

import "errors"

// Library is where the double is built, which is not here.
func Library() (string, error) {
	return "", errors.New("the double is for Linux on amd64 or arm64")
}
