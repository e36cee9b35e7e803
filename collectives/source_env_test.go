//go:build !mpi

package collectives

// mpirunSource is what names the ranks under mpirun.
const mpirunSource = "env:OMPI"
