//go:build mpi

package collectives

const mpirunSource = "mpi"
