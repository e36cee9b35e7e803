//go:build mpi

package mpiloop

/*
#cgo CFLAGS: -O2
#cgo pkg-config: ompi
#include <mpi.h>
#include <stdlib.h>
#include "loop.h"

static int start(void)
{
	int provided, err = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
	return err != MPI_SUCCESS ? err : weft_loop_init();
}
static int world(int *rank, int *size)
{
	int err = MPI_Comm_rank(MPI_COMM_WORLD, rank);
	return err != MPI_SUCCESS ? err : MPI_Comm_size(MPI_COMM_WORLD, size);
}
*/
import "C"

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unsafe"
)

// Start initialises MPI, before comm.Init. Serialized threads cost MPI no more
// than a single one does, and the library may be called from any thread.
func Start() error { return check("MPI_Init_thread", C.start()) }

// Finish ends MPI, after Close.
func Finish() { C.MPI_Finalize() }

// World returns this process's rank in MPI and the number of ranks.
func World() (rank, size int) {
	var r, n C.int
	C.world(&r, &n)
	return int(r), int(n)
}

// Version is that of the MPI library.
func Version() string {
	var buf [C.MPI_MAX_LIBRARY_VERSION_STRING]C.char
	var n C.int
	if C.MPI_Get_library_version(&buf[0], &n) != C.MPI_SUCCESS {
		return "MPI"
	}
	return shortVersion(C.GoStringN(&buf[0], n))
}

// shortVersion keeps what names the library: up to the first comma or line,
// and with a plain number.
func shortVersion(s string) string {
	s, _, _ = strings.Cut(s, ",")
	s, _, _ = strings.Cut(s, "\n")
	return strings.Replace(strings.TrimSpace(strings.TrimRight(s, "\x00")), " v", " ", 1)
}

func check(call string, code C.int) error {
	if code == C.MPI_SUCCESS {
		return nil
	}
	var buf [C.MPI_MAX_ERROR_STRING]C.char
	var n C.int
	C.MPI_Error_string(code, &buf[0], &n)
	return fmt.Errorf("%s: %s", call, C.GoStringN(&buf[0], n))
}

// A Loop is what the calls of a batch have in common.
type Loop struct {
	Coll                 int // in the order of loop.h
	Type, Op             string
	Root                 int
	InPlace              bool
	Count, Elem          int
	Slots                int64
	SrcStride, DstStride int64 // bytes

	c       C.struct_weft_loop
	typ, op *C.char // small, and as long-lived as the program
}

// Supports says whether MPI has that type and operator.
func (l *Loop) Supports() bool {
	if l.typ == nil {
		l.typ, l.op = C.CString(l.Type), C.CString(l.Op)
		l.c = C.struct_weft_loop{
			coll: C.int(l.Coll), root: C.int(l.Root), count: C.int(l.Count), elem: C.int(l.Elem),
			slots: C.long(l.Slots), src_stride: C.size_t(l.SrcStride), dst_stride: C.size_t(l.DstStride),
		}
		if l.InPlace {
			l.c.in_place = 1
		}
	}
	return l.Count <= math.MaxInt32 && C.weft_loop_supports(l.c.coll, l.c.in_place, l.typ, l.op) != 0
}

// Run makes the calls first, first+1, … and returns how long they took, by a
// clock in C.
func (l *Loop) Run(src, dst []byte, first int64, calls int) (time.Duration, error) {
	if !l.Supports() {
		return 0, fmt.Errorf("MPI has no such operation")
	}
	var seconds C.double
	code := C.weft_loop_run(&l.c, l.typ, l.op, (*C.char)(unsafe.Pointer(unsafe.SliceData(src))),
		(*C.char)(unsafe.Pointer(unsafe.SliceData(dst))), C.long(first), C.long(calls), &seconds)
	return time.Duration(float64(seconds) * 1e9), check("MPI", code)
}
