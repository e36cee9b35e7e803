package model

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// two counts to n with two hands, each of which reads, adds and writes.
type two struct {
	word       uint8
	read, done [2]uint8
}

func system(atomic bool, need uint8) *System[two] {
	return &System[two]{
		Next: func(s *two, m *Moves[two]) {
			for i := range 2 {
				switch {
				case s.done[i] == 2:
					if s.done[1-i] == 2 && s.word != need {
						m.To(false, "look")
						m.Wrong("lost")
					}
				case s.done[i] == 0:
					n := m.To(false, "hand %d reads %d", i, int(s.word))
					n.read[i], n.done[i] = s.word, 1
					if atomic {
						n.word, n.done[i] = s.word+1, 2
					}
				default:
					n := m.To(false, "hand %d writes %d", i, int(s.read[i]+1))
					n.word, n.done[i] = s.read[i]+1, 2
				}
			}
		},
		Final: func(s *two) bool { return s.word == need },
		Append: func(b []byte, s *two) []byte {
			return append(b, s.word, s.read[0], s.read[1], s.done[0], s.done[1])
		},
		Parse: func(b []byte, s *two) { *s = two{b[0], [2]uint8{b[1], b[2]}, [2]uint8{b[3], b[4]}} },
	}
}

func TestExplore(t *testing.T) {
	require.Equal(t, OK, system(true, 2).Explore().Outcome)
	r := system(false, 2).Explore()
	require.Equal(t, Wrong, r.Outcome)
	require.Equal(t, []string{"hand 0 reads 0", "hand 1 reads 0", "hand 0 writes 1", "hand 1 writes 1", "look"}, r.Trace)

	s := system(true, 2)
	next := s.Next
	s.Next = func(s *two, m *Moves[two]) {
		if s.word == 1 {
			m.To(true, "late").word = 2
			return
		}
		next(s, m)
	}
	r = s.Explore()
	require.Equal(t, Hang, r.Outcome, "a late move alone is none")
	require.Equal(t, []string{"hand 0 reads 0"}, r.Trace)

	s = system(true, 2)
	s.Most = 1
	require.Equal(t, Unfinished, s.Explore().Outcome)
}
