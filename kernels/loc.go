package kernels

// The pairs of a value and an index are the elements of [MinLoc] and [MaxLoc],
// which find the extreme value and where it is, as MPI's operators of these
// names do on its pair types. What the index counts is up to the caller: the
// ranks, or the places in some vector. No pair has padding, so that all of its
// bytes are its value's and its index's.

// Float32Loc is a float32 and its index.
type Float32Loc struct {
	Value float32
	Index int32
}

// Float64Loc is a float64 and its index.
type Float64Loc struct {
	Value float64
	Index int64
}

// Int32Loc is an int32 and its index.
type Int32Loc struct {
	Value int32
	Index int32
}

// Int64Loc is an int64 and its index.
type Int64Loc struct {
	Value int64
	Index int64
}
