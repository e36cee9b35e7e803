package progress

import (
	"time"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/progress/lane"
)

// A flight is a phase on multicast memory that was started, and for whose end nobody
// waits yet: a put to all replicas or a pull from all.
type flight struct {
	phase  transport.Completion
	under  bool
	number uint64 // in the order in which they were started

	offset uint64 // in multicast memory
	data   []byte // what is put, or where what is pulled goes
	tail   []byte // a unit, for the end of data

	put  bool
	slot int // of a put

	op    transport.RedOp // of a pull
	t     kernels.Type
	zones zones // where it lands on a transport that may fail
	zone  int
}

const (
	// maxFlights bounds the phases under way: more wait for the oldest.
	maxFlights = 8

	zoneBytes = 64 << 10
	zoneCount = 2
)

// zones are where the pulls of a flight land on a transport that may fail.
type zones struct {
	*lane.Zones
	mem [zoneCount][]byte
}

// take returns a zone; if none is left there are new ones, and the old memory
// belongs to what may still land in it.
func (z *zones) take() int {
	if z.Zones != nil {
		if i, ok := z.Take(); ok {
			if z.mem[i] == nil {
				z.mem[i] = make([]byte, zoneBytes)
			}
			return i
		}
	}
	*z = zones{Zones: lane.NewZones(zoneCount)}
	return z.take()
}

// launch starts the phase of a flight.
func (e *Engine) launch(of flight) error {
	f, err := e.freeFlight()
	if err != nil {
		return err
	}
	if f.phase == nil {
		if f.phase, err = e.completion(); err != nil {
			return err
		}
		f.tail = make([]byte, transport.Granule)
	}
	of.phase, of.tail, of.zones = f.phase, f.tail, f.zones
	*f = of
	e.group.started++
	f.under, f.number = true, e.group.started
	e.stats[e.rank].Messages++
	e.stats[e.rank].Bytes += uint64(len(f.data))
	return e.start(f)
}

// freeFlight returns one without a phase, when the oldest has ended if there is none.
func (e *Engine) freeFlight() (*flight, error) {
	all := &e.group.flights
	oldest := &all[0]
	for i := range all {
		f := &all[i]
		if !f.under {
			return f, nil
		}
		if f.number < oldest.number {
			oldest = f
		}
	}
	return oldest, e.land(oldest)
}

// start starts the phase of a flight, for the first time or again.
func (e *Engine) start(f *flight) error {
	at := e.target(f)
	whole := len(f.data) / transport.Granule * transport.Granule
	rest := len(f.data) - whole
	var err error
	switch {
	case f.put:
		if whole > 0 {
			err = e.t.PutMultimem(f.phase, at, f.data[:whole])
		}
		if rest > 0 && err == nil {
			copy(f.tail, f.data[whole:])
			err = e.t.PutMultimem(f.phase, at.Add(uint64(whole)), padded(f.tail, rest))
		}
		e.group.board.Start()
	case e.faulty:
		// What is reported may land later: in a zone of ours, which nobody uses again.
		f.zone = f.zones.take()
		err = e.t.PullRed(f.phase, f.zones.mem[f.zone][:roundUp(len(f.data))], at, f.op, f.t)
	default:
		if whole > 0 {
			err = e.t.PullRed(f.phase, f.data[:whole], at, f.op, f.t)
		}
		if rest > 0 && err == nil {
			err = e.t.PullRed(f.phase, f.tail, at.Add(uint64(whole)), f.op, f.t)
		}
	}
	if err == nil {
		err = f.phase.Submit()
	}
	if err == nil {
		err = f.phase.Arrive()
	}
	return err
}

func (e *Engine) target(f *flight) transport.Handle {
	return transport.Handle{ID: e.group.ep.ID(), Offset: f.offset}
}

// land waits for the end of a flight's phase, and has it start again until it is
// clean, or what it was to do is done another way.
func (e *Engine) land(f *flight) error {
	begin, attempts := time.Time{}, 1
	op := transport.OpPullRed
	if f.put {
		op = transport.OpPutMultimem
	}
	for {
		report, err := e.ended(f.phase, e.rank)
		given := err == errPhase
		if err != nil && !given {
			return err
		}
		if given {
			report.Status = transport.StatusFailed
			if err := e.abandonFlight(f); err != nil {
				return err
			}
		} else if f.put {
			e.group.board.Report(f.slot, report.Clean())
		}
		if report.Clean() {
			e.works(e.rank, direct)
			e.arrive(f)
			break
		}
		if begin.IsZero() {
			begin = time.Now()
		}
		e.stats[e.rank].Reports++
		if !f.put && e.faulty {
			f.zones.Retire(f.zone)
		}
		if f.put && e.group.posts[f.slot].lost {
			break
		}
		if err := e.again(op, e.rank, direct, e.target(f), 0, attempts, report); err != nil {
			r := route{}
			if err := e.another(e.rank, &r, err); err != nil {
				return err
			}
			if err := e.divertFlight(f, r.way); err != nil {
				return err
			}
			break
		}
		e.collect()
		if err := e.start(f); err != nil {
			return err
		}
		attempts++
	}
	f.under, f.data = false, nil
	if !begin.IsZero() {
		e.stats[e.rank].Lost += time.Since(begin)
	}
	return nil
}

// divertFlight does what a flight was to do by another way.
func (e *Engine) divertFlight(f *flight, by way) error {
	switch {
	case f.put && by == byPointer:
		return e.postStored(f.offset, f.data)
	case f.put:
		e.group.posts[f.slot].lost = true
		return nil
	case by == byPointer:
		return e.pullStored(f.data, f.offset, f.op, f.t)
	}
	return e.pullAround(f.data, f.offset, f.op, f.t)
}

// arrive brings what a pull reduced to where it goes.
func (e *Engine) arrive(f *flight) {
	switch rest := len(f.data) % transport.Granule; {
	case f.put:
	case e.faulty:
		copy(f.data, f.zones.mem[f.zone])
	case rest > 0:
		copy(f.data[len(f.data)-rest:], f.tail)
	}
}

// abandonFlight gives a flight's phase up: what it reads and writes is its own.
func (e *Engine) abandonFlight(f *flight) (err error) {
	a := abandoned{phase: f.phase}
	if f.put {
		a.board = e.group.board
		a.board.Abandon(f.slot)
		f.tail = make([]byte, transport.Granule)
	}
	e.abandoned = append(e.abandoned, a)
	f.phase, err = e.completion()
	return err
}
