package lane

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/internal/model"
)

// broken says for each rule of lanes in which world it is missed.
var broken = []struct {
	rule rule
	bounds
}{
	{repeatPlain, bounds{lengths: twos(2), shape: Shape{1, 2}, faults: 1}},
	{headerLast, bounds{lengths: twos(2), shape: Shape{1, 2}, faults: 1}},
	{quarantine, bounds{lengths: twos(3), shape: Shape{1, 3}, faults: 2}},
	{quarantineSlot, bounds{lengths: twos(3), shape: Shape{1, 3}, faults: 2}},
	{quarantineLeft, bounds{lengths: twos(2), shape: Shape{1, 3}, faults: 2, giveUp: true}},
	{awaitCredit, bounds{lengths: twos(3), shape: Shape{2, 4}}},
	{awaitAll, bounds{lengths: ofUnits(1, 3), shape: Shape{1, 2}, receivers: 2, faults: 1}},
	{awaitOwn, bounds{lengths: twos(2), shape: Shape{1, 2}, faults: 1, repeat: true}},
	{freshOffsets, bounds{lengths: twos(4), shape: Shape{1, 3}, faults: 2}},
	{finishFirst, bounds{lengths: twos(3), shape: Shape{2, 4}}},
	{holdSource, bounds{lengths: twos(2), shape: Shape{1, 2}, faults: 1, giveUp: true}},
	{ownCounter, bounds{lengths: twos(3), shape: Shape{2, 4}}},
	{ownHeader, bounds{lengths: twos(3), shape: Shape{2, 4}, faults: 1}},
	{headerEqual, bounds{lengths: twos(3), shape: Shape{2, 4}, faults: 1}},
	{targetAll, bounds{lengths: twos(2), shape: Shape{1, 3}, faults: 1}},
	{emptyByHeader, bounds{lengths: []uint64{2, 0, 0, 2}, shape: Shape{2, 4}}},
	{behindLast, bounds{lengths: ofUnits(1, 2), shape: Shape{1, 3}, faults: 1, slot: 2, slots: 2}},
	{growOnly, bounds{lengths: twos(3), shape: Shape{1, 3}, faults: 1}},
	{reissue, bounds{lengths: twos(3), shape: Shape{1, 3}, faults: 1}},
}

// TestLaneWithout takes each rule away in turn. What that does is found by what the
// checker finds of itself: a message that is not the one that was sent, or that was
// not sent yet, or a wait that does not end.
func TestLaneWithout(t *testing.T) {
	for _, b := range broken {
		if small && b.faults > 1 {
			continue
		}
		t.Run(b.rule.String(), func(t *testing.T) {
			r := b.system().Explore()
			require.Equal(t, model.OK, r.Outcome, "with the rule: %v", r)
			b.without = b.rule
			r = b.system().Explore()
			t.Logf("without: %v", r)
			require.Contains(t, []model.Outcome{model.Wrong, model.Hang}, r.Outcome)
		})
	}
}
