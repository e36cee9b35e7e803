package lane

// A header is one word, so that it is never seen in part: the low bits of the epoch,
// counted from 1 so that none is like the zeros of a new cell, and the length.
const (
	lengthBits = 24
	epochBits  = 64 - lengthBits

	// MaxLength is the largest length of a message, in bytes.
	MaxLength = 1<<lengthBits - 1
)

// headerOf grows with the epoch within one stretch of 2^epochBits epochs; a lane is
// renewed at the end of a stretch.
func headerOf(epoch, length uint64) uint64 { return (epoch+1)<<lengthBits | length }

// stretch is the part of an epoch that its header does not hold.
func stretch(epoch uint64) uint64 { return (epoch + 1) >> epochBits }

// names says whether a header is that of an epoch, and gives the length.
func names(header, epoch uint64) (length uint64, ok bool) {
	return header & MaxLength, header>>lengthBits == (epoch+1)&(1<<epochBits-1)
}

// SameEpoch says whether two headers name the same epoch.
func SameEpoch(a, b uint64) bool { return a>>lengthBits == b>>lengthBits }
