//go:build !amd64 && !arm64

package progress

func spinPause(int) {}
