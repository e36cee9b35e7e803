package faults

import "math"

// A Fault is what happens to one phase. The zero Fault is none.
type Fault struct {
	Kind Kind
	// Seed decides about the phase's pieces. Pieces of the same numbers meet the
	// same in every run.
	Seed uint64
}

// Reported says that the phase's report must say that it failed.
func (f Fault) Reported() bool { return f.Kind != None }

// A Delay says when a piece is executed, in steps of the engine: [Now], [Never],
// or that many steps after the phase was reported.
type Delay uint64

const (
	// Now: before the phase is reported.
	Now Delay = 0
	// Never: not at all.
	Never Delay = math.MaxUint64
)

// When says when a piece of the phase is executed, 0 ≤ piece < pieces. Pieces are
// numbered through the phase's operations in the order of their start. It
// returns the same for the same arguments.
func (f Fault) When(piece, pieces int) Delay {
	switch f.Kind {
	case None, Ack:
		return Now
	case Part:
		if f.partly(piece, pieces) {
			return Now
		}
		return Never
	case Late:
		if piece != f.first(pieces) && f.coin(piece) {
			return Now
		}
		return f.delay(piece)
	}
	return Never
}

// partly says whether a piece is executed under Part: the one of two chosen
// pieces is, the other is not, and a coin decides about the rest.
func (f Fault) partly(piece, pieces int) bool {
	if pieces > 1 {
		switch first := f.first(pieces); piece {
		case first:
			return true
		case (first + 1 + below(splitMix(f.Seed, 1), pieces-1)) % pieces:
			return false
		}
	}
	return f.coin(piece)
}

func (f Fault) first(pieces int) int { return below(splitMix(f.Seed, 0), pieces) }

// coin decides about a piece, with a bias that the fault's seed decides, so that
// phases of many pieces lose few, half or most of them.
func (f Fault) coin(piece int) bool {
	return splitMix(f.Seed, 3+2*uint64(piece)) < splitMix(f.Seed, 2)
}

// delay draws from a distribution without a mean: x steps or more with
// probability 1/√x.
func (f Fault) delay(piece int) Delay {
	x := float64(splitMix(f.Seed, 4+2*uint64(piece))>>11+1) * 0x1p-53
	if y := 1 / (x * x); y < 0x1p64 {
		return Delay(y)
	}
	return Never - 1
}
