package nccl

import "unsafe"

// initRank calls ncclCommInitRank, which takes the id by value: on amd64 such a structure lies
// among the arguments on the stack, behind the six that are in registers, of which this
// function uses three.
func (l *Library) initRank(comm *uintptr, ranks int, id *UniqueID, rank int) error {
	w := *(*[16]uintptr)(unsafe.Pointer(id))
	return l.call(fnCommInitRank, uintptr(unsafe.Pointer(comm)), uintptr(ranks), uintptr(rank), 0, 0, 0,
		w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13], w[14], w[15])
}
