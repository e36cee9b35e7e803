// Package elementwise has the arithmetic of remote reductions and atoms over
// mapped memory: every element of the target by one atomic instruction or a
// compare-and-swap.
package elementwise
