package lane

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// begin begins a message that must be able to begin.
func begin(t *testing.T, s *Sender, length uint64) Step {
	step, err := s.Begin(length)
	require.NoError(t, err)
	require.Equal(t, Start, step.Do)
	return step
}

// TestReplacement has every message reported: each cell carries one, until there
// is none left.
func TestReplacement(t *testing.T) {
	s := NewSender(Shape{Primaries: 2, Cells: 5}, 1)
	for want := range 5 {
		step := begin(t, s, 16)
		require.Equal(t, want, step.Cell)
		for step = s.Report(step, false); step.Do == Start; {
			step = s.Report(step, true)
		}
		require.NoError(t, s.Credit(0, s.Next()))
	}
	for range 2 {
		step, err := s.Begin(16)
		require.ErrorIs(t, err, ErrExhausted)
		require.Equal(t, Step{}, step)
	}
	require.Equal(t, 3, s.Replaced())
	require.Equal(t, Step{Cell: NoCell, Epoch: 5}, s.BeginElsewhere())
	require.EqualValues(t, 6, s.Next())
}

// TestWaits wants a sender to say what it waits for.
func TestWaits(t *testing.T) {
	s := NewSender(Shape{Primaries: 2, Cells: 2}, 2)
	first := begin(t, s, 16)
	s.Report(begin(t, s, 16), true)
	step, err := s.Begin(16)
	require.NoError(t, err)
	require.Equal(t, Step{Do: WaitCredit, Epoch: 0}, step)
	require.NoError(t, s.Credit(0, 1))
	step, _ = s.Begin(16)
	require.Equal(t, Step{Do: WaitCredit, Epoch: 0}, step, "one receiver of two has released it")
	require.NoError(t, s.Credit(1, 2))
	step, _ = s.Begin(16)
	require.Equal(t, Step{Do: WaitOwn}, step)
	s.Report(first, true)
	require.Equal(t, 0, begin(t, s, 16).Cell)
	require.Error(t, s.Credit(0, 4), "three were sent")
	require.NoError(t, s.Credit(0, 0), "an old word")
}

// TestForeignReports wants what is not under way to change nothing.
func TestForeignReports(t *testing.T) {
	s := NewSender(Shape{Primaries: 1, Cells: 2}, 1)
	step := begin(t, s, 16)
	again := s.Report(step, false)
	require.Equal(t, Plain, again.Path)
	before := s.primaries[0]
	for _, foreign := range []Step{step, {}, {Cell: 1, Path: Plain}, {Cell: NoCell, Path: Plain}, {Epoch: 7, Path: Plain}} {
		require.Equal(t, Step{}, s.Report(foreign, true))
		require.Equal(t, Step{}, s.Abandon(foreign))
		s.Skip(foreign, false)
		s.Ended(foreign)
		require.Equal(t, before, s.primaries[0])
	}
}

// TestStretch wants a cell to be replaced before its headers begin again.
func TestStretch(t *testing.T) {
	const last = 1<<epochBits - 2
	s := NewSender(Shape{Primaries: 1, Cells: 2}, 1)
	s.next, s.primaries[0].since = last, last
	require.NoError(t, s.Credit(0, last))
	s.Report(begin(t, s, 16), true)
	require.NoError(t, s.Credit(0, last+1))
	step := begin(t, s, 16)
	require.Equal(t, 1, step.Cell)
	require.Equal(t, Plain, step.Path)
}

// TestHeaders wants every header to name its own epoch only.
func TestHeaders(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 10000 {
		e, length := rng.Uint64()>>rng.IntN(64), rng.Uint64N(MaxLength+1)
		h := headerOf(e, length)
		got, ok := names(h, e)
		require.True(t, ok && got == length, "seed %d: %d, %d", seed, e, length)
		_, ok = names(h, e+1+rng.Uint64N(1<<epochBits-1))
		require.False(t, ok, "seed %d: %d", seed, e)
	}
	_, ok := names(0, 0)
	require.False(t, ok, "a new cell")
}

// TestCounterAbove wants a counter that counted too much to be an error.
func TestCounterAbove(t *testing.T) {
	r := NewReceiver(Shape{Primaries: 1, Cells: 1})
	ok, err := r.Counted(16, 16)
	require.True(t, ok)
	require.NoError(t, err)
	_, err = r.Counted(17, 16)
	require.ErrorIs(t, err, ErrCounter)
	r.Take(r.Primary(), Counted, 16)
	require.EqualValues(t, 16, r.Base())
	ok, err = r.Counted(16, 0)
	require.False(t, ok, "an empty message is not found by a counter")
	require.NoError(t, err)
}

func TestZonesRunOut(t *testing.T) {
	z := NewZones(2)
	for want := range 2 {
		zone, ok := z.Take()
		require.True(t, ok)
		require.Equal(t, want, zone)
		z.Retire(zone)
	}
	_, ok := z.Take()
	require.False(t, ok)
}

// TestNoAllocations wants the steps of all machines to allocate nothing.
func TestNoAllocations(t *testing.T) {
	shape := Shape{Primaries: 2, Cells: 4}
	s, r := NewSender(shape, 1), NewReceiver(shape)
	var w Word
	require.Zero(t, testing.AllocsPerRun(100, func() {
		step, _ := s.Begin(16)
		s.Report(step, true)
		s.Finished(step)
		r.Counted(r.Base()+16, 16)
		for i := range r.Headers() {
			r.Header(i)
			r.Named(0)
		}
		r.Take(r.Primary(), Counted, 16)
		s.Credit(0, r.Next())
		w.Raise(r.Next())
		w.Report(w.Value(), true)
	}))
}
