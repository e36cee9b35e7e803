// Package nccl calls NVIDIA's NCCL, which is loaded when the program runs: building needs
// neither NCCL nor cgo. It has what the benchmarks compare with, and no more.
//
// NCCL works on the device that is current for the thread, so all calls of a [Comm] are made
// within [Comm.Do], several of them in one.
package nccl
