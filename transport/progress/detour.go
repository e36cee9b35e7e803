package progress

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/progress/lane"
)

// ErrDetour: what was delivered is not what an engine sends by detour.
var ErrDetour = errors.New("not a message between engines")

// A detour is what goes to a peer another way because the link to it does not
// work: a message of a lane, or a credit; or because multicast memory does not, see
// around.go.
type detour struct {
	mail   bool
	credit bool   // epoch is the number of epochs released
	multi  uint32 // of multicast memory: detourPost, detourAsk or detourAnswer; else 0
	cell   int    // that the message was begun in, or NoCell; the slot of a posting
	epoch  uint64 // of the message, or its number
	data   []byte // the message, as it would lie in the cell
}

const (
	detourPost   = 4 // a part of a posting
	detourAsk    = 5 // for what the peer contributes
	detourAnswer = 6 // that
)

// detourBytes is what stands before the data: kind, cell, epoch.
const detourBytes = 16

func (d detour) append(b []byte) []byte {
	kind := d.multi
	if d.mail {
		kind |= 1
	}
	if d.credit {
		kind |= 2
	}
	b = binary.LittleEndian.AppendUint32(b, kind)
	b = binary.LittleEndian.AppendUint32(b, uint32(int32(d.cell)))
	b = binary.LittleEndian.AppendUint64(b, d.epoch)
	return append(b, d.data...)
}

func parseDetour(b []byte) (detour, error) {
	if len(b) < detourBytes {
		return detour{}, fmt.Errorf("%w: %d bytes", ErrDetour, len(b))
	}
	kind := binary.LittleEndian.Uint32(b)
	d := detour{
		mail: kind&1 != 0, credit: kind&2 != 0, cell: int(int32(binary.LittleEndian.Uint32(b[4:]))),
		epoch: binary.LittleEndian.Uint64(b[8:]), data: b[detourBytes:],
	}
	if kind > 3 {
		d.mail, d.credit, d.multi = false, false, kind
	}
	if kind > detourAnswer || d.cell < lane.NoCell || d.credit != (len(d.data) == 0) {
		return detour{}, fmt.Errorf("%w: kind %d, cell %d, %d bytes", ErrDetour, kind, d.cell, len(d.data))
	}
	return d, nil
}

// arrivals are what came by detour from one peer for one lane, and for the lane to
// it. They are filled by the goroutine that hears the peer.
type arrivals struct {
	count   atomic.Uint64 // of messages
	credits atomic.Uint64 // the lane's credit
	mu      sync.Mutex
	waiting map[uint64]detour // by epoch
}

// take returns the message of an epoch if it came, and forgets those before it.
func (a *arrivals) take(epoch uint64) (d detour, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	d, ok = a.waiting[epoch]
	for e := range a.waiting {
		if e <= epoch {
			delete(a.waiting, e)
		}
	}
	return d, ok
}

func (a *arrivals) add(d detour) {
	if d.credit {
		for {
			old := a.credits.Load()
			if old >= d.epoch || a.credits.CompareAndSwap(old, d.epoch) {
				return
			}
		}
	}
	// Aligned as in a cell: sizes are whole units.
	data := make([]byte, roundUp(len(d.data)))
	d.data = data[:copy(data, d.data)]
	a.mu.Lock()
	if a.waiting == nil {
		a.waiting = map[uint64]detour{}
	}
	a.waiting[d.epoch] = d
	a.mu.Unlock()
	a.count.Add(1)
}

// Deliver takes what a peer's engine gave to its Config.Detour. It may be called
// by any goroutine, at any time until Close; m is the caller's when it returns.
func (e *Engine) Deliver(from int, m []byte) error {
	if err := e.checkLane(from, 0, 0); err != nil {
		return err
	}
	d, err := parseDetour(m)
	if err != nil {
		return fmt.Errorf("from rank %d: %w", from, err)
	}
	if d.multi != 0 {
		return e.deliverMulti(from, d)
	}
	to, l := e.arrived, e.lanes
	if d.mail {
		to = e.mailArrived
		if e.mail != nil {
			l = e.mail.lanes
		}
	}
	if to == nil || d.cell >= l.most() || len(d.data) > l.slotBytes || !d.credit && len(d.data) < tagBytes {
		return fmt.Errorf("from rank %d: %w: cell %d, %d bytes", from, ErrDetour, d.cell, len(d.data))
	}
	to[from].add(d)
	e.space.first.Doorbell().Ring()
	return nil
}

// divert sends d by detour.
func (p *port) divert(peer int, d detour) error {
	d.mail = p.isMail
	p.stats[peer].Reroutes.Channel++
	p.diverted = d.append(p.diverted[:0])
	return p.detour(p.wait.ctx, peer, p.diverted)
}

// divertMessage sends a message by detour that was begun in a cell.
func (p *port) divertMessage(o *outEnd, cell int, epoch uint64, prefix int, data []byte) error {
	p.whole = append(append(p.whole[:0], p.stage[:prefix]...), data...)
	return p.divert(o.peer, detour{cell: cell, epoch: epoch, data: p.whole})
}

// isFabric says whether err is that of a phase that failed for good.
func isFabric(err error) bool {
	var f *transport.FabricError
	return errors.As(err, &f)
}
