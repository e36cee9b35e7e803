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
	TypeFloat8E4M3
	TypeFloat8E5M2
	TypeComplex64
	TypeComplex128
	TypeFloat32Loc
	TypeFloat64Loc
	TypeInt32Loc
	TypeInt64Loc
	numTypes
)

// Number is the constraint of all element types at compile time: the integers,
// floats and complex numbers of Go, [Float16], [BFloat16], [Float8E4M3] and
// [Float8E5M2], the pairs of a value and an index ([Float32Loc] and the like),
// and named types over any of these.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 |
		~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 |
		~float32 | ~float64 | ~complex64 | ~complex128 |
		~struct{ f16 uint16 } | ~struct{ bf16 uint16 } |
		~struct{ e4m3 uint8 } | ~struct{ e5m2 uint8 } |
		~struct {
			Value float32
			Index int32
		} | ~struct {
		Value float64
		Index int64
	} | ~struct {
		Value int32
		Index int32
	} | ~struct {
		Value int64
		Index int64
	}
}

// class is a set of kinds of element types.
type class uint8

const (
	integers  class = 1 << iota
	floats          // of 64, 32, 16 and 8 bits
	complexes       // of two floats
	pairs           // of a value and an index
)

var types = [numTypes]struct {
	name        string
	alias       string // a second name that ParseType takes
	class       class
	size, align uint8
}{
	TypeInvalid:    {name: "invalid"},
	TypeInt8:       {"int8", "", integers, 1, uint8(unsafe.Alignof(int8(0)))},
	TypeInt16:      {"int16", "", integers, 2, uint8(unsafe.Alignof(int16(0)))},
	TypeInt32:      {"int32", "", integers, 4, uint8(unsafe.Alignof(int32(0)))},
	TypeInt64:      {"int64", "", integers, 8, uint8(unsafe.Alignof(int64(0)))},
	TypeUint8:      {"uint8", "", integers, 1, uint8(unsafe.Alignof(uint8(0)))},
	TypeUint16:     {"uint16", "", integers, 2, uint8(unsafe.Alignof(uint16(0)))},
	TypeUint32:     {"uint32", "", integers, 4, uint8(unsafe.Alignof(uint32(0)))},
	TypeUint64:     {"uint64", "", integers, 8, uint8(unsafe.Alignof(uint64(0)))},
	TypeFloat16:    {"float16", "half", floats, 2, uint8(unsafe.Alignof(Float16{}))},
	TypeBFloat16:   {"bfloat16", "", floats, 2, uint8(unsafe.Alignof(BFloat16{}))},
	TypeFloat32:    {"float32", "float", floats, 4, uint8(unsafe.Alignof(float32(0)))},
	TypeFloat64:    {"float64", "double", floats, 8, uint8(unsafe.Alignof(float64(0)))},
	TypeFloat8E4M3: {"float8e4m3", "f8e4m3", floats, 1, uint8(unsafe.Alignof(Float8E4M3{}))},
	TypeFloat8E5M2: {"float8e5m2", "f8e5m2", floats, 1, uint8(unsafe.Alignof(Float8E5M2{}))},
	TypeComplex64:  {"complex64", "", complexes, 8, uint8(unsafe.Alignof(complex64(0)))},
	TypeComplex128: {"complex128", "", complexes, 16, uint8(unsafe.Alignof(complex128(0)))},
	TypeFloat32Loc: {"float32loc", "", pairs, 8, uint8(unsafe.Alignof(Float32Loc{}))},
	TypeFloat64Loc: {"float64loc", "", pairs, 16, uint8(unsafe.Alignof(Float64Loc{}))},
	TypeInt32Loc:   {"int32loc", "", pairs, 8, uint8(unsafe.Alignof(Int32Loc{}))},
	TypeInt64Loc:   {"int64loc", "", pairs, 16, uint8(unsafe.Alignof(Int64Loc{}))},
}

// String returns the lower-case name of the type: "int8" … "uint64",
// "float16", "bfloat16", "float32", "float64", "float8e4m3", "float8e5m2",
// "complex64", "complex128", "float32loc", "float64loc", "int32loc" or
// "int64loc"; "invalid" for TypeInvalid and "Type(n)" for a value not declared
// here.
func (t Type) String() string {
	if t >= numTypes {
		return "Type(" + strconv.Itoa(int(t)) + ")"
	}
	return types[t].name
}

// Valid reports whether t is one of the types declared here, TypeInvalid
// excluded.
func (t Type) Valid() bool { return t != TypeInvalid && t < numTypes }

// Size returns the size of an element in bytes (1, 2, 4, 8 or 16), and 0 for an
// invalid type.
func (t Type) Size() int {
	if t >= numTypes {
		return 0
	}
	return int(types[t].size)
}

// Align returns the alignment, in bytes, that [Reduce] and [Slice] require of
// buffers of this type, and 0 for an invalid type. It is Go's own alignment
// of the type: that of one part for complex numbers and pairs, else equal to
// Size; but no more than 4 on some 32-bit systems.
func (t Type) Align() int {
	if t >= numTypes {
		return 0
	}
	return int(types[t].align)
}

// ParseType returns the type whose String is exactly s; "half", "float",
// "double", "f8e4m3" and "f8e5m2" are taken too, for float16, float32, float64,
// float8e4m3 and float8e5m2. The error for any other s wraps [ErrType].
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
	case *Float8E4M3:
		return TypeFloat8E4M3
	case *Float8E5M2:
		return TypeFloat8E5M2
	case *complex64:
		return TypeComplex64
	case *complex128:
		return TypeComplex128
	case *Float32Loc:
		return TypeFloat32Loc
	case *Float64Loc:
		return TypeFloat64Loc
	case *Int32Loc:
		return TypeInt32Loc
	case *Int64Loc:
		return TypeInt64Loc
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
	reflect.Int:        typeInt,
	reflect.Int8:       TypeInt8,
	reflect.Int16:      TypeInt16,
	reflect.Int32:      TypeInt32,
	reflect.Int64:      TypeInt64,
	reflect.Uint:       typeUint,
	reflect.Uint8:      TypeUint8,
	reflect.Uint16:     TypeUint16,
	reflect.Uint32:     TypeUint32,
	reflect.Uint64:     TypeUint64,
	reflect.Float32:    TypeFloat32,
	reflect.Float64:    TypeFloat64,
	reflect.Complex64:  TypeComplex64,
	reflect.Complex128: TypeComplex128,
}

// Structs convert to one another only if their fields have the same names and
// types, which tells the formats and the pairs apart.
var structs = [...]struct {
	like reflect.Type
	typ  Type
}{
	{reflect.TypeFor[Float16](), TypeFloat16},
	{reflect.TypeFor[BFloat16](), TypeBFloat16},
	{reflect.TypeFor[Float8E4M3](), TypeFloat8E4M3},
	{reflect.TypeFor[Float8E5M2](), TypeFloat8E5M2},
	{reflect.TypeFor[Float32Loc](), TypeFloat32Loc},
	{reflect.TypeFor[Float64Loc](), TypeFloat64Loc},
	{reflect.TypeFor[Int32Loc](), TypeInt32Loc},
	{reflect.TypeFor[Int64Loc](), TypeInt64Loc},
}

// typeOfNamed is TypeOf for a type named outside the universe block, or for a
// struct.
func typeOfNamed(t reflect.Type) Type {
	typ, _ := TypeFor(t) // the constraint has no others
	return typ
}

// TypeFor returns the run-time type of a Go type, as [TypeOf] does, and whether
// it is one of [Number].
func TypeFor(t reflect.Type) (Type, bool) {
	if t.Kind() == reflect.Struct {
		for _, s := range structs {
			if t.ConvertibleTo(s.like) {
				return s.typ, true
			}
		}
		return TypeInvalid, false
	}
	if int(t.Kind()) >= len(kinds) {
		return TypeInvalid, false
	}
	return kinds[t.Kind()], kinds[t.Kind()] != TypeInvalid
}
