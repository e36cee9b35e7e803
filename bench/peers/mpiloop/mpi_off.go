//go:build !mpi

package mpiloop

import (
	"errors"
	"time"
)

// Start initialises MPI, before comm.Init.
func Start() error {
	return errors.New("this program can't call MPI: build it with -tags mpi")
}

// Finish ends MPI, after Close.
func Finish() {}

// World returns this process's rank in MPI and the number of ranks.
func World() (rank, size int) { return 0, 1 }

// Version is that of the MPI library, if there is one.
func Version() string { return "" }

// A Loop is what the calls of a batch have in common.
type Loop struct {
	Coll                 int // in the order of loop.h
	Type, Op             string
	Root                 int
	InPlace              bool
	Count, Elem          int
	Slots                int64
	SrcStride, DstStride int64 // bytes
}

// Supports says whether MPI has that type and operator.
func (l *Loop) Supports() bool { return false }

// Run makes the calls first, first+1, … and returns how long they took.
func (l *Loop) Run([]byte, []byte, int64, int) (time.Duration, error) {
	return 0, errors.New("no MPI in this program")
}
