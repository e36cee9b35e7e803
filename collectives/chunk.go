package collectives

// A span is a range of bytes.
type span struct{ from, to int }

func (s span) len() int { return s.to - s.from }

func (s span) of(b []byte) []byte { return b[s.from:s.to:s.to] }

// chunk returns the part of s of at most n bytes that round r moves.
func (s span) chunk(r, n int) span {
	from := min(s.from+r*n, s.to)
	return span{from, min(from+n, s.to)}
}

// rounds is the number of chunks of n bytes.
func (s span) rounds(n int) int { return (s.len() + n - 1) / n }

// shift returns s, n bytes further on.
func (s span) shift(n int) span { return span{s.from + n, s.to + n} }

// share returns rank's share of count elements of the given size: shares differ
// by at most one element, the larger ones first.
func share(count, ranks, rank, size int) span {
	each, more := count/ranks, count%ranks
	from := rank*each + min(rank, more)
	to := from + each
	if rank < more {
		to++
	}
	return span{from * size, to * size}
}
