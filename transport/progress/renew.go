package progress

import (
	"github.com/weft-go/weft/transport/progress/lane"
)

// A lane is renewed when most of its cells, or of its slots, were used: the receiver
// binds memory behind offsets that were never used, and then raises a word at the sender
// that says how often it has. There is nothing to agree on: to the lane it is more cells
// that were never used, and they are there before the sender hears of them. A word
// that does not get there is raised again with a later message.

// inEnd is the receiving end of a lane.
type inEnd struct {
	*lane.Receiver
	places lane.Places

	lanes    *lanes
	renewals int    // memory that was bound
	granted  uint64 // of them the sender knows
	refused  bool   // there is no more memory
}

func newIn(l *lanes) inEnd {
	return inEnd{Receiver: lane.NewReceiver(l.shape()), places: l.places(), lanes: l}
}

// low says that a lane is to be renewed.
func (in *inEnd) low() bool {
	l := in.lanes
	return in.renewals < l.renewals && !in.refused &&
		(in.Unused() < l.more.cells/2 || in.places.Unused() < l.more.slotsBytes/2)
}

// renew renews the lane from a peer if it is time.
func (e *Engine) renew(in *inEnd, peer int) { e.port.renew(e, in, peer) }

func (p *port) renew(e *Engine, in *inEnd, peer int) {
	if in.granted == uint64(in.renewals) && !in.low() {
		return
	}
	if in.low() {
		at := in.lanes.renewed(peer, in.renewals)
		mem, err := e.t.Alloc(in.lanes.more.bytes)
		if err == nil {
			if err = e.own.Bind(at, mem); err != nil {
				mem.Free()
			}
		}
		if err != nil { // messages go by detour when the cells are used
			in.refused = true
		} else {
			e.space.grow(at, mem)
			in.renewals++
			p.stats[peer].Renewals++
			in.Grow(in.lanes.cells + in.renewals*in.lanes.more.cells)
			in.places.Grow(in.lanes.more.slotsBytes)
		}
	}
	if in.granted < uint64(in.renewals) && p.tell(peer, in.lanes.granted(p.rank), uint64(in.renewals)) {
		in.granted = uint64(in.renewals)
	}
}

// tell tries once to raise a word of a peer's that can wait.
func (p *port) tell(peer int, offset, value uint64) bool {
	by := p.choose(peer, 0)
	if by == byChannel {
		by = direct
	}
	report, err := p.raiseOnce(peer, by, offset, value)
	return err == nil && report.Clean()
}

// renewed says whether the receiver of a lane has renewed it since this was asked.
func (p *port) renewed(o *outEnd) bool {
	n := min(p.mem.load(o.granted), uint64(o.lanes.renewals))
	if n <= uint64(o.renewals) {
		return false
	}
	o.places.Grow((n - uint64(o.renewals)) * o.lanes.more.slotsBytes)
	o.renewals = int(n)
	o.Grow(o.lanes.cells + o.renewals*o.lanes.more.cells)
	return true
}
