package collectives

import (
	"fmt"
	"math"
	"reflect"
	"sync"
	"unsafe"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// An element is what slices of a call consist of: numbers, or bytes that are
// only moved.
type element struct {
	t    kernels.Type // TypeInvalid: no number
	size int          // in bytes
	err  error        // why slices of it can't be in a call
}

// numberOf is the element of a type of numbers.
func numberOf[T kernels.Number]() element {
	switch any((*T)(nil)).(type) { // the common ones, at once
	case *float32:
		return element{t: kernels.TypeFloat32, size: 4}
	case *float64:
		return element{t: kernels.TypeFloat64, size: 8}
	}
	t := kernels.TypeOf[T]()
	return element{t: t, size: t.Size()}
}

// elementOf is the element of any type whose values are moved as they lie in
// memory.
func elementOf[T any]() element {
	switch any((*T)(nil)).(type) { // the common ones, without a look into a map
	case *byte:
		return numberOf[byte]()
	case *float32:
		return numberOf[float32]()
	case *float64:
		return numberOf[float64]()
	case *int:
		return numberOf[int]()
	}
	return elementOfType(reflect.TypeFor[T]())
}

// checked are the types that were looked at, with what was found.
var checked sync.Map

func elementOfType(t reflect.Type) element {
	v, ok := checked.Load(t)
	if !ok {
		e := &element{size: int(t.Size())}
		if number, ok := kernels.TypeFor(t); ok {
			e.t = number
		} else if why := unmovable(t); why != "" {
			e.err = fmt.Errorf("%w: %v %s", ErrType, t, why)
		}
		v, _ = checked.LoadOrStore(t, e)
	}
	return *v.(*element)
}

// unmovable says why values of a type can't be moved to another process by
// their bytes, or nothing.
func unmovable(t reflect.Type) string {
	if t.Size() == 0 {
		return "has no bytes"
	}
	return pointers(t)
}

// pointers says where in a type there are pointers, or nothing.
func pointers(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Array:
		if t.Len() > 0 {
			return pointers(t.Elem())
		}
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if why := pointers(f.Type); why != "" {
				return fmt.Sprintf("has pointers (field %s)", f.Name)
			}
		}
	case reflect.Pointer, reflect.UnsafePointer, reflect.String, reflect.Slice, reflect.Map,
		reflect.Chan, reflect.Func, reflect.Interface:
		return fmt.Sprintf("has pointers (%v)", t.Kind())
	}
	return ""
}

// bytesOf returns the memory of a slice.
func bytesOf[T any](s []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(zero)))
}

// sliceOf is the inverse. b is aligned for T.
func sliceOf[T any](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

// count is the number of elements in b.
func (e element) count(b []byte) int { return len(b) / max(e.size, 1) }

// total is the sum of the elements of blocks, one for each rank.
func (e element) total(c *comm.Communicator, name string, counts []int) (int, error) {
	if c != nil && len(counts) != c.Size() {
		return 0, fmt.Errorf("%w: %s has %d, for %d ranks", ErrCount, name, len(counts), c.Size())
	}
	total := 0
	for p, n := range counts {
		if n < 0 || n > math.MaxInt/max(e.size, 1)-total {
			return 0, fmt.Errorf("%w: %s[%d] is %d", ErrCount, name, p, n)
		}
		total += n
	}
	return total, nil
}

// start is where a rank's block begins, in bytes.
func (e element) start(counts []int, rank int) int {
	at := 0
	for _, n := range counts[:rank] {
		at += n
	}
	return at * e.size
}
