//go:build !amd64

package nccl

import "unsafe"

// initRank calls ncclCommInitRank, which takes the id by value: on arm64 the caller passes the
// address of a copy.
func (l *Library) initRank(comm *uintptr, ranks int, id *UniqueID, rank int) error {
	return l.call(fnCommInitRank, uintptr(unsafe.Pointer(comm)), uintptr(ranks), uintptr(unsafe.Pointer(id)), uintptr(rank))
}
