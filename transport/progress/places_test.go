package progress

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport/pointer"
	"github.com/weft-go/weft/transport/progress/lane"
)

// TestPlaces has both ends follow the cells of a lane on which messages of all lengths
// fail: they agree, messages lie within the slots, and none lies where a message that
// was reported may still land.
func TestPlaces(t *testing.T) {
	seeds := uint64(300)
	if raceEnabled { // one goroutine does it all
		seeds = 30
	}
	shifts := map[uint64]bool{}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 1))
		// In units, or so that messages move in their slots, all but their heads.
		unit := uint64(16)
		if seed%2 == 1 {
			unit = 256
		}
		l := newLanes(0, 1+r.IntN(3), 40, 1+r.IntN(20), int(16*unit), 2)
		if unit > 16 {
			l.head = 16
		}
		tr := pointer.NewLocal()
		mem, err := tr.Alloc(l.bytes)
		require.NoError(t, err)
		var memory space
		memory.init(mem, l.bytes)
		s, sent := lane.NewSender(l.shape(), 1), l.places()
		got := l.places()
		dirty := make([]bool, l.bytes-l.slots+2*l.more.slotsBytes)
		p := port{t: tr, faulty: true, mem: &memory}
		p.links, p.roads = make([][linkWays]link, 1), []road{{open: waySet(0).with(direct)}}
		o := outEnd{Sender: s, places: sent, lanes: &l, granted: l.granted(0)}
		renewals := 0
		in := lane.NewReceiver(l.shape())
		for {
			length := unit * uint64(1+r.IntN(3))
			if r.IntN(4) == 0 {
				length = unit * uint64(1+r.IntN(16))
			}
			step, err := p.open(&o, length)
			if err != nil && renewals < l.renewals { // as the receiver does
				renewals++
				got.Grow(l.more.slotsBytes)
				in.Grow(l.cells + renewals*l.more.cells)
				binary.NativeEndian.PutUint64(mem.Bytes()[o.granted:], uint64(renewals))
				step, err = p.open(&o, length)
				require.NoError(t, err, "seed %d", seed)
			}
			if err != nil {
				require.ErrorIs(t, err, lane.ErrExhausted, "seed %d", seed)
				require.Greater(t, s.Next(), uint64(3), "seed %d", seed)
				break
			}
			at := o.places.Of(step.Epoch)
			shift := o.places.Shift(at, step.Epoch, length)
			shifts[shift] = true
			require.LessOrEqual(t, at.At+length+shift, l.bytes-l.slots+uint64(renewals)*l.more.slotsBytes, "seed %d", seed)
			require.LessOrEqual(t, length+shift, at.Room, "seed %d", seed)
			lies := func(f func(i uint64)) {
				for i := range length {
					if i < l.head {
						f(at.At + i)
					} else {
						f(at.At + i + shift)
					}
				}
			}
			lies(func(i uint64) {
				if dirty[i] {
					require.Fail(t, "a late one may land", "seed %d: message %d of %d bytes at %d, %d behind its head", seed, step.Epoch, length, at.At, shift)
				}
			})
			moved := step.Cell != in.Primary()
			if moved {
				to, ok := got.Next(in.Next(), length)
				require.True(t, ok, "seed %d", seed)
				require.Equal(t, at, to, "seed %d", seed)
				require.Equal(t, shift, got.Shift(to, in.Next(), length), "seed %d", seed)
			} else {
				require.Equal(t, at, got.Of(in.Next()), "seed %d", seed)
				require.Equal(t, shift, got.Shift(at, in.Next(), length), "seed %d", seed)
			}
			for step.Do == lane.Start {
				clean := r.IntN(3) != 0
				if !clean && step.Path != lane.Header {
					lies(func(i uint64) { dirty[i] = true })
				}
				step = s.Report(step, clean)
			}
			by := lane.Header
			if !moved && r.IntN(2) == 0 {
				by = lane.Counted
			}
			cell := in.Primary()
			if moved {
				cell = in.Header(1)
			}
			got.Take(in.Next(), length, moved)
			in.Take(cell, by, length)
			require.NoError(t, s.Credit(0, in.Next()))
		}
	}
	require.Greater(t, len(shifts), 5)
}
