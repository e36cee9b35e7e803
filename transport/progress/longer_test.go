package progress

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric"
)

// TestLongerMessage: of a message that is longer than expected as much as was expected is
// there before its tag. It is told by its own tag, not by that which the slot had before.
func TestLongerMessage(t *testing.T) {
	es := openFabric(t, DefaultLayout(2), fabric.ModeFast, 1, "", nil)
	ctx := context.Background()
	cells := es[0].lanes.primaries
	for _, e := range es {
		e.Begin(ctx, time.Minute, 1, 7)
	}
	together(t, 2, func(me int) error {
		for range cells { // each slot has a tag
			if me == 0 {
				if err := es[0].Send(1, make([]byte, 100)); err != nil {
					return err
				}
			} else if _, err := es[1].Recv(0, 100); err != nil {
				return err
			}
		}
		if me == 1 {
			return es[1].Release(0)
		}
		return nil
	})

	want := Tag{Seq: 1, Signature: 9, Bytes: 4096, Part: uint16(cells)}
	put := func(at uint64, b []byte) error {
		e := es[0]
		slot := e.lanes.slot(0, e.out[1].places.Of(uint64(cells)))
		if err := e.t.PutCounted(e.phase, e.roads[1].at(direct, slot).Add(at), b, e.lanes.counter(0, 0)); err != nil {
			return err
		}
		report, err := e.end(1)
		if err == nil && !report.Clean() {
			err = errors.New("reported")
		}
		return err
	}
	together(t, 2, func(me int) error {
		if me == 1 {
			_, err := es[1].Recv(0, 100)
			var m *MismatchError
			if !errors.As(err, &m) || m.Got != want {
				return fmt.Errorf("received: %w", err)
			}
			return nil
		}
		if err := put(tagBytes, make([]byte, 4096)); err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond) // so that the other looks at the old tag, if it does
		tag := make([]byte, tagBytes)
		want.put(tag)
		return put(0, tag)
	})
}

// TestHeaderWithoutMessage: a header that names no bytes, in a cell for which its slot has no
// room any more, is an error.
func TestHeaderWithoutMessage(t *testing.T) {
	l := DefaultLayout(2)
	l.Cells, l.SlotBytes = 2, 1024
	es := openFabric(t, l, fabric.ModeFast, 1, "", nil)
	for _, e := range es {
		e.Begin(context.Background(), time.Minute, 1, 7)
	}
	together(t, 2, func(me int) error {
		for range l.Cells {
			if me == 0 {
				if err := es[0].Send(1, make([]byte, 1024-tagBytes)); err != nil {
					return err
				}
			} else if _, err := es[1].Recv(0, 1024-tagBytes); err != nil {
				return err
			}
		}
		return nil
	})
	const epoch = 2
	binary.NativeEndian.PutUint64(es[1].space.bytes[es[1].lanes.header(0, l.Cells):], (epoch+1)<<24)
	_, err := es[1].Recv(0, 0)
	require.ErrorIs(t, err, transport.ErrBounds)
}
