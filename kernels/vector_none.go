//go:build !amd64 || noasm

package kernels

// best returns the best tier that this processor has.
func best() tier { return plain }

// vectorSum does nothing either.
func vectorSum([]byte, [][]byte, Type) bool { return false }

// vector does nothing: no tier but plain Go is in this build.
func vector(tier, []byte, [][]byte, int, Type, Op, int) bool { return false }
