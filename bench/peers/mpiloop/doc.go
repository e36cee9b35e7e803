// Package mpiloop times an MPI library's own collectives in a loop in C. It
// does so in programs that are built with -tags mpi; otherwise [Start] says
// that they are not.
package mpiloop
