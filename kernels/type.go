package kernels

import (
	"fmt"
	"reflect"
	"strconv"
	"unsafe"
)

// Type is an element type known only at run time.
type Type uint8

// The element types. The zero Type is invalid.
const (
	TypeInvalid Type = iota
	TypeInt8
	TypeInt16
	TypeInt32
	TypeInt64
	TypeUint8
	TypeUint16
	TypeUint32
	TypeUint64
	TypeFloat16
	TypeBFloat16
	TypeFloat32
	TypeFloat64
	numTypes
)

// Number is the constraint of all element types at compile time: the integers
// and floats of Go, [Float16] and [BFloat16], and named types over any of
// these.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 |
		~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 |
		~float32 | ~float64 |
		~struct{ f16 uint16 } | ~struct{ bf16 uint16 }
}

var types = [numTypes]struct {
	name        string
	alias       string // a second name that ParseType takes
	size, align uint8
}{
	TypeInvalid:  {name: "invalid"},
	TypeInt8:     {"int8", "", 1, uint8(unsafe.Alignof(int8(0)))},
	TypeInt16:    {"int16", "", 2, uint8(unsafe.Alignof(int16(0)))},
	TypeInt32:    {"int32", "", 4, uint8(unsafe.Alignof(int32(0)))},
	TypeInt64:    {"int64", "", 8, uint8(unsafe.Alignof(int64(0)))},
	TypeUint8:    {"uint8", "", 1, uint8(unsafe.Alignof(uint8(0)))},
	TypeUint16:   {"uint16", "", 2, uint8(unsafe.Alignof(uint16(0)))},
	TypeUint32:   {"uint32", "", 4, uint8(unsafe.Alignof(uint32(0)))},
	TypeUint64:   {"uint64", "", 8, uint8(unsafe.Alignof(uint64(0)))},
	TypeFloat16:  {"float16", "half", 2, uint8(unsafe.Alignof(Float16{}))},
	TypeBFloat16: {"bfloat16", "", 2, uint8(unsafe.Alignof(BFloat16{}))},
	TypeFloat32:  {"float32", "float", 4, uint8(unsafe.Alignof(float32(0)))},
	TypeFloat64:  {"float64", "double", 8, uint8(unsafe.Alignof(float64(0)))},
}

// String returns the lower-case name of the type: "int8" … "uint64",
// "float16", "bfloat16", "float32" or "float64"; "invalid" for TypeInvalid
// and "Type(n)" for a value not declared here.
func (t Type) String() string {
	if t >= numTypes {
		return "Type(" + strconv.Itoa(int(t)) + ")"
	}
	return types[t].name
}

// Valid reports whether t is one of the types declared here, TypeInvalid
// excluded.
func (t Type) Valid() bool { return t != TypeInvalid && t < numTypes }

// Size returns the size of an element in bytes (1, 2, 4 or 8), and 0 for an
// invalid type.
func (t Type) Size() int {
	if t >= numTypes {
		return 0
	}
	return int(types[t].size)
}

// Align returns the alignment, in bytes, that [Reduce] and [Slice] require of
// buffers of this type, and 0 for an invalid type. It is Go's own alignment
// of the type: equal to Size, but for 8-byte elements on some 32-bit systems,
// where it is 4.
func (t Type) Align() int {
	if t >= numTypes {
		return 0
	}
	return int(types[t].align)
}

// ParseType returns the type whose String is exactly s; "half", "float" and
// "double" are taken too, for float16, float32 and float64. The error for any
// other s wraps [ErrType].
func ParseType(s string) (Type, error) {
	for t := TypeInvalid + 1; t < numTypes; t++ {
		if s != "" && (s == types[t].name || s == types[t].alias) {
			return t, nil
		}
	}
	return TypeInvalid, fmt.Errorf("%w: %q", ErrType, s)
}

// TypeOf returns the run-time type of T. Named types give the type that they
// are built on, int and uint the sized type of their width (int64 and uint64
// on 64-bit systems). The result is always valid. It does not allocate.
func TypeOf[T Number]() Type {
	// A nil pointer carries the type without a value to box.
	switch any((*T)(nil)).(type) {
	case *int8:
		return TypeInt8
	case *int16:
		return TypeInt16
	case *int32:
		return TypeInt32
	case *int64:
		return TypeInt64
	case *uint8:
		return TypeUint8
	case *uint16:
		return TypeUint16
	case *uint32:
		return TypeUint32
	case *uint64:
		return TypeUint64
	case *Float16:
		return TypeFloat16
	case *BFloat16:
		return TypeBFloat16
	case *float32:
		return TypeFloat32
	case *float64:
		return TypeFloat64
	case *int:
		return typeInt
	case *uint:
		return typeUint
	}
	return typeOfNamed(reflect.TypeFor[T]())
}

// The sized types of int and uint: ^uint(0)>>63 is 1 where they have 64 bits.
const (
	typeInt  = TypeInt32 + Type(^uint(0)>>63)
	typeUint = TypeUint32 + Type(^uint(0)>>63)
)

var kinds = [...]Type{
	reflect.Int:     typeInt,
	reflect.Int8:    TypeInt8,
	reflect.Int16:   TypeInt16,
	reflect.Int32:   TypeInt32,
	reflect.Int64:   TypeInt64,
	reflect.Uint:    typeUint,
	reflect.Uint8:   TypeUint8,
	reflect.Uint16:  TypeUint16,
	reflect.Uint32:  TypeUint32,
	reflect.Uint64:  TypeUint64,
	reflect.Float32: TypeFloat32,
	reflect.Float64: TypeFloat64,
}

var float16Type = reflect.TypeFor[Float16]()

// typeOfNamed is TypeOf for a type named outside the universe block.
func typeOfNamed(t reflect.Type) Type {
	if t.Kind() != reflect.Struct {
		return kinds[t.Kind()]
	}
	// Structs convert to one another only if their fields have the same names,
	// which tells the two 16-bit formats apart.
	if t.ConvertibleTo(float16Type) {
		return TypeFloat16
	}
	return TypeBFloat16
}
