// Package cuda is the CUDA driver API, loaded when the program runs: building
// needs neither CUDA nor cgo, and a program that never calls [Load] never
// touches the driver. Where there is none, Load says so ([ErrNoDriver]); where
// it is too old for a function, calls of that function do ([ErrNotInDriver]).
//
// # Threads and contexts
//
// CUDA knows a current context per thread of the system, and goroutines move
// between threads. So nothing here relies on what is current: all that needs a
// context is a method of something that has one, and makes it current for the
// time of that call, on a stack that the driver keeps for such cases. Other
// users of CUDA in the same process don't notice. Methods may be called by any
// goroutine, and by several at once unless they say otherwise.
//
// # Addresses
//
// Memory of a device is a [Ptr], a number for Go. Memory that the driver
// allocated on the host is given as a slice; it is not Go's, so whoever frees
// it must not use the slice again. Copies that are enqueued on a stream want
// such memory, or registered memory, on their host side: the driver may use it
// after the call has returned, and the garbage collector does not know.
//
// # Cost
//
// A call into the driver costs some 100 ns more than in C, and those that
// need a context pay that three times. See docs/cuda.md for figures.
package cuda
