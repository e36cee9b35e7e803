package progress

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/progress/lane"
)

// A port is what it takes to start operations, wait for their end, and start them
// again. It belongs to one goroutine at a time; ports are independent of each other.
type port struct {
	t      transport.Transport
	rank   int
	mem    *space // this rank's
	phase  transport.Completion
	wait   waiter
	stage  []byte // where short messages, and the ends of long ones, are put together
	word   []byte // what words are raised by; a unit
	faulty bool   // phases may be reported
	retry  Retry
	stats  []PeerStats // by rank

	abandoned []abandoned
	idle      []transport.Completion

	// Of other ways than the first; see way.go.
	roads []road           // by rank; those of the engine
	links [][linkWays]link // by rank
	via   transport.Access // by which messages are put now, instead of by phases; or nil

	far *farness // nil for mail

	joiner transport.Joiner  // nil: each put by itself
	joined [4]transport.Part // room for the parts of a message
	apart  int               // bytes at the end of a message that are a part of their own

	// Of detours; see detour.go.
	detour   func(ctx context.Context, peer int, m []byte) error // may be nil
	isMail   bool
	diverted []byte
	whole    []byte
}

// stageBytes is the length up to which a message is put together in one piece.
const stageBytes = lane.InOnePiece

// Retry says how phases are tried again. Zero fields have their defaults.
type Retry struct {
	// MaxAttempts bounds how often one phase is tried; default 40.
	MaxAttempts int
	// Backoff is about how long to wait before the third attempt, and twice as
	// long before each further one, at most MaxBackoff; defaults 1 µs and 1 ms. The
	// second attempt is made at once: most failures concern one phase.
	Backoff, MaxBackoff time.Duration
	// PhaseTimeout is how long to wait for a phase to end before it counts as
	// reported; default 1 s.
	PhaseTimeout time.Duration
}

func (r Retry) withDefaults() Retry {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	if r.MaxAttempts <= 0 {
		r.MaxAttempts = 40
	}
	set(&r.Backoff, time.Microsecond)
	set(&r.MaxBackoff, time.Millisecond)
	set(&r.PhaseTimeout, time.Second)
	return r
}

// abandoned is a phase that did not end in time. What it reads is its own until it
// ends: nobody else uses its completion, stage and word.
type abandoned struct {
	phase transport.Completion
	out   *outEnd // whose message it reads; nil: none
	step  lane.Step
	board *lane.Board // on which it posts; nil: none
}

// outEnd is the sending end of a lane to a peer.
type outEnd struct {
	*lane.Sender
	peer   int
	lanes  *lanes
	route         // of the message that was begun last
	credit uint64 // offset of the credit word
	places lane.Places

	granted  uint64 // offset of the word with the number of renewals
	renewals int    // that are in use
	// credits are those that came by detour.
	credits *atomic.Uint64
}

func newPort(cfg *Config, mem *space, roads []road, wait waiter) (port, error) {
	t, ranks := cfg.Transport, cfg.Layout.Ranks
	p := port{
		t: t, rank: cfg.Rank, mem: mem, wait: wait,
		stage: make([]byte, stageBytes), word: make([]byte, transport.Granule),
		faulty: t.Limits().LateWrites, retry: cfg.Retry.withDefaults(), stats: make([]PeerStats, ranks),
		detour: cfg.Detour, roads: roads, links: make([][linkWays]link, ranks),
	}
	p.joiner, _ = t.(transport.Joiner)
	if !p.faulty {
		p.retry, p.detour = Retry{MaxAttempts: 1}, nil
	}
	var err error
	p.phase, err = t.NewCompletion(1)
	return p, err
}

// open begins a message of a lane. The step says that it must wait for credit, or
// what to send gets.
func (p *port) open(o *outEnd, length uint64) (lane.Step, error) {
	if p.faulty {
		o.route = route{way: p.choose(o.peer, 0)}
		if o.way == byChannel {
			step := o.BeginElsewhere()
			if step.Do != lane.WaitCredit {
				p.begins(o.peer, o.way)
			}
			return step, nil
		}
		if o.places.Of(o.Next()).Room < length {
			o.Retire() // it got what was left of a slot
		}
		if cell, moves := o.Moves(); moves {
			if _, ok := o.places.Next(o.Next(), length); !ok || cell == lane.NoCell {
				return p.exhausted(o, length)
			}
		}
	}
	moved := o.Replaced()
	step, err := o.Begin(length)
	switch {
	case err == nil && step.Do == lane.Start && p.faulty:
		o.places.Take(step.Epoch, length, o.Replaced() != moved)
		p.begins(o.peer, o.way)
	case err == lane.ErrExhausted:
		return p.exhausted(o, length)
	case err != nil:
		return step, fmt.Errorf("progress: lane to rank %d: %w", o.peer, err)
	case step.Do == lane.WaitOwn:
		return step, fmt.Errorf("progress: a message to rank %d while another is under way: %w", o.peer, transport.ErrPhase)
	}
	return step, nil
}

// exhausted begins a message for which there is no cell any more.
func (p *port) exhausted(o *outEnd, length uint64) (lane.Step, error) {
	if p.renewed(o) {
		return p.open(o, length)
	}
	if p.detour == nil {
		return lane.Step{}, p.outOfCells(transport.OpPutCounted, o.peer, o.Next())
	}
	return o.BeginElsewhere(), nil
}

// outOfCells is the error of what has no cell to go to. It travels as that of a phase which
// was not even tried.
func (p *port) outOfCells(op transport.OpKind, peer int, epoch uint64) error {
	failed := &transport.FabricError{Op: op, Rank: p.rank, Peer: peer, Endpoint: p.roads[peer].ids[direct], Epoch: epoch, Status: transport.Report{Status: transport.StatusFailed}}
	return fmt.Errorf("progress: %w: %w", lane.ErrExhausted, failed)
}

// send brings a message that has begun with a step to its receiver: the first
// prefix bytes of the stage, a whole number of units, then data. Both may change when
// it returns.
func (p *port) send(o *outEnd, step lane.Step, prefix int, data []byte) error {
	p.stats[o.peer].Messages++
	p.stats[o.peer].Bytes += uint64(len(data))
	p.apart = 0
	if f := p.far; f != nil && f.far && f.due(step.Epoch, len(data)) {
		p.apart = farTail
	}
	if !p.faulty {
		at := p.target(o, step)
		if err := p.message(o, step, at, prefix, data); err != nil {
			return err
		}
		report, err := p.end(o.peer)
		if err != nil {
			return err
		}
		if report.Clean() {
			o.Report(step, true)
			return nil
		}
		p.stats[o.peer].Reports++
		return p.again(transport.OpPutCounted, o.peer, direct, at, step.Epoch, 1, report)
	}
	if step.Do == lane.Nothing {
		return p.divertMessage(o, step.Cell, step.Epoch, prefix, data)
	}
	report, err := p.try(o, step, prefix, data)
	switch {
	case err == nil && report.Clean():
		next := o.Report(step, true)
		if next.Do == lane.Nothing {
			p.works(o.peer, o.way)
			return nil
		}
		return p.resend(o, next, 1, prefix, data)
	case err != nil && err != errPhase:
		return err
	}
	begin, attempts := time.Now(), 1
	next, err := p.failed(o, step, report, err, attempts)
	if err != nil {
		attempts, err = 0, p.another(o.peer, &o.route, err)
	}
	if err == nil {
		if next.Do == lane.Nothing {
			next = step
			next.Do = lane.Nothing
		}
		err = p.resend(o, next, attempts, prefix, data)
	}
	p.stats[o.peer].Lost += time.Since(begin)
	return err
}

// resend does the steps of a message until it needs no more, and waits until it
// may change. The first step had so many attempts.
func (p *port) resend(o *outEnd, step lane.Step, attempts, prefix int, data []byte) error {
	last, clean := step, false
	for step.Do == lane.Start {
		if o.way == byChannel {
			return p.elsewhere(o, step, prefix, data)
		}
		last = step
		p.collect()
		if err := p.look(o); err != nil {
			return err
		}
		if o.Released() > step.Epoch {
			o.Skip(step, true)
			return p.finish(o, last) // it got there, by whichever way
		}
		report, err := p.try(o, step, prefix, data)
		switch {
		case err == nil && report.Clean():
			step = o.Report(step, true)
			attempts, clean = 1, true
		case err != nil && err != errPhase:
			return err
		default:
			attempts++
			clean = false
			if step, err = p.failed(o, step, report, err, attempts); err == nil {
				continue
			}
			if err := p.another(o.peer, &o.route, err); err != nil {
				return err
			}
			attempts = 0
		}
	}
	if clean { // else it was released after all
		p.works(o.peer, o.way)
	}
	return p.finish(o, last)
}

// elsewhere sends a message by detour whose next step could not be tried any more.
func (p *port) elsewhere(o *outEnd, step lane.Step, prefix int, data []byte) error {
	o.Skip(step, true)
	if err := p.divertMessage(o, step.Cell, step.Epoch, prefix, data); err != nil {
		return err
	}
	return p.finish(o, step)
}

// finish waits until the message of a step may change.
func (p *port) finish(o *outEnd, last lane.Step) error {
	for !o.Finished(last) {
		if err := p.pause(0, o.peer); err != nil {
			return err
		}
		p.collect()
		if err := p.look(o); err != nil {
			return err
		}
	}
	return nil
}

// failed takes a phase of a message that was reported, or did not end, and
// returns what to do when it has waited a little.
func (p *port) failed(o *outEnd, step lane.Step, report transport.Report, late error, attempts int) (lane.Step, error) {
	p.stats[o.peer].Reports++
	var next lane.Step
	if late == nil {
		next = o.Report(step, false)
	} else {
		report.Status = transport.StatusFailed
		var of *outEnd
		if step.Path != lane.Header {
			of = o
		}
		if err := p.abandon(abandoned{out: of, step: step}); err != nil {
			return next, err
		}
		next = o.Abandon(step)
	}
	if next.Do != lane.Start {
		return next, nil
	}
	return next, p.again(pathOps[step.Path], o.peer, o.way, p.target(o, step), step.Epoch, attempts, report)
}

// again says whether a phase may be tried once more by a way, and waits a little before.
func (p *port) again(op transport.OpKind, peer int, by way, at transport.Handle, epoch uint64, attempts int, report transport.Report) error {
	if attempts >= p.attempts(peer, by) {
		return &transport.FabricError{Op: op, Rank: p.rank, Peer: peer, Endpoint: at.ID, Offset: at.Offset, Epoch: epoch, Attempts: attempts, Status: report}
	}
	p.stats[peer].Retries++
	return p.pause(attempts, peer)
}

var pathOps = [...]transport.OpKind{lane.Counted: transport.OpPutCounted, lane.Plain: transport.OpPut, lane.Header: transport.OpRed}

// target is where a step's phase goes.
func (p *port) target(o *outEnd, step lane.Step) transport.Handle {
	r := &p.roads[o.peer]
	if step.Path == lane.Header {
		return r.at(o.way, o.lanes.header(p.rank, step.Cell))
	}
	return r.at(o.way, o.lanes.slot(p.rank, o.places.Of(step.Epoch)))
}

// look has the sender see its credit word.
func (p *port) look(o *outEnd) error {
	return o.Credit(0, max(p.mem.load(o.credit), o.credits.Load()))
}

// try tries a step's phase once.
func (p *port) try(o *outEnd, step lane.Step, prefix int, data []byte) (transport.Report, error) {
	if o.way == byPointer {
		return transport.Report{}, p.store(o, step, prefix, data)
	}
	at := p.target(o, step)
	var err error
	if step.Path == lane.Header {
		err = p.red(at, o.Value(step))
	} else {
		err = p.message(o, step, at, prefix, data)
	}
	if err != nil {
		return transport.Report{}, err
	}
	return p.end(o.peer)
}

// store does by pointer what a step's phase does. It does not fail, and so is clean.
func (p *port) store(o *outEnd, step lane.Step, prefix int, data []byte) error {
	at := p.target(o, step)
	p.t.Fence(transport.FenceAcquire)
	defer p.t.Fence(transport.FenceRelease)
	access := p.roads[o.peer].access
	if step.Path == lane.Header {
		return access.Raise(at.Offset, o.Value(step))
	}
	p.via = access
	err := p.message(o, step, at, prefix, data)
	p.via = nil
	return err
}

// message starts the puts of a message, for a step of it, to the place of its cell.
func (p *port) message(o *outEnd, step lane.Step, at transport.Handle, prefix int, data []byte) error {
	counted, counter := step.Path == lane.Counted, o.lanes.counter(p.rank, step.Cell)
	// Everything that does not fill units of its own goes through the stage, the
	// end of data behind the prefix: the transport may read both until the phase
	// ends.
	whole, staged := 0, prefix
	if prefix+len(data) > stageBytes {
		whole = len(data) / transport.Granule * transport.Granule
	} else {
		staged += copy(p.stage[prefix:], data)
	}
	if whole == 0 {
		return p.put(at, padded(p.stage, staged), counted, counter)
	}
	body := uint64(prefix) + o.places.Shift(o.places.Of(step.Epoch), step.Epoch, uint64(roundUp(prefix+len(data))))
	parts := append(p.joined[:0], transport.Part{Src: padded(p.stage, prefix)}, transport.Part{Offset: body, Src: data[:whole-p.apart]})
	if from := whole - p.apart; from < whole {
		parts = append(parts, transport.Part{Offset: body + uint64(from), Src: data[from:whole]})
	}
	end := p.stage[prefix:]
	if rest := copy(end, data[whole:]); rest > 0 {
		parts = append(parts, transport.Part{Offset: body + uint64(whole), Src: padded(end, rest)})
	}
	defer clear(parts) // keep nothing of the caller's
	if counted && p.joiner != nil && p.via == nil {
		return p.joiner.PutCountedParts(p.phase, at, parts, counter)
	}
	for _, part := range parts {
		if err := p.put(at.Add(part.Offset), part.Src, counted, counter); err != nil {
			return err
		}
	}
	return nil
}

func (p *port) put(at transport.Handle, src []byte, counted bool, counter uint64) error {
	if p.via != nil {
		err := p.via.Store(at.Offset, src)
		if err == nil && counted {
			err = p.via.Count(counter, uint64(len(src)))
		}
		return err
	}
	if counted {
		return p.t.PutCounted(p.phase, at, src, counter)
	}
	return p.t.Put(p.phase, at, src)
}

// red starts to raise a word of a peer to value.
func (p *port) red(at transport.Handle, value uint64) error {
	// A red works on whole units; the second word stays zero for ever.
	binary.NativeEndian.PutUint64(p.word, value) // as atomics of this machine read it
	return p.t.Red(p.phase, at, p.word, transport.RedMax, kernels.TypeUint64)
}

// raise raises a peer's credit word, at an offset, to value.
func (p *port) raise(w *lane.Word, peer int, offset, value uint64) error {
	if !w.Raise(value) {
		return nil
	}
	r := route{}
	if p.faulty {
		r.way = p.choose(peer, 0)
		p.begins(peer, r.way)
	}
	var begin time.Time
	for attempts := 1; ; attempts++ {
		to := w.Value()
		if r.way == byChannel {
			w.Report(to, true) // it will be there
			if err := p.divert(peer, detour{credit: true, cell: lane.NoCell, epoch: to}); err != nil {
				return err
			}
			break
		}
		report, err := p.raiseOnce(peer, r.way, offset, to)
		if err != nil {
			return err
		}
		if !w.Report(to, report.Clean()) {
			if p.faulty {
				p.works(peer, r.way)
			}
			break
		}
		if begin.IsZero() {
			begin = time.Now()
		}
		if err := p.again(transport.OpRed, peer, r.way, p.roads[peer].at(r.way, offset), to, attempts, report); err != nil {
			if err := p.another(peer, &r, err); err != nil {
				return err
			}
			attempts = 0
		}
		p.collect()
	}
	if !begin.IsZero() {
		p.stats[peer].Lost += time.Since(begin)
	}
	return nil
}

// raiseOnce raises a word of a peer's by a way. If it does not end in time, that is as a
// report.
func (p *port) raiseOnce(peer int, by way, offset, value uint64) (report transport.Report, err error) {
	if by == byPointer {
		p.t.Fence(transport.FenceAcquire)
		err = p.roads[peer].access.Raise(offset, value)
		p.t.Fence(transport.FenceRelease)
		return report, err
	}
	if err = p.red(p.roads[peer].at(by, offset), value); err != nil {
		return report, err
	}
	report, err = p.end(peer)
	if err == errPhase {
		report.Status = transport.StatusFailed
		err = p.abandon(abandoned{})
	}
	if err == nil && !report.Clean() {
		p.stats[peer].Reports++
	}
	return report, err
}

// end ends the current phase and reads its report. With errPhase it has not ended
// in time. After any other error it may still be under way as well, and the port is
// of no more use.
func (p *port) end(peer int) (transport.Report, error) {
	if err := p.phase.Submit(); err != nil {
		return transport.Report{}, err
	}
	if err := p.phase.Arrive(); err != nil {
		return transport.Report{}, err
	}
	return p.ended(p.phase, peer)
}

// ended waits for the end of a phase, as end does.
func (p *port) ended(c transport.Completion, peer int) (transport.Report, error) {
	if err := p.wait.done(c, peer, p.retry.PhaseTimeout); err != nil {
		return transport.Report{}, err
	}
	return c.Report()
}

// abandon gives the current phase up.
func (p *port) abandon(a abandoned) (err error) {
	a.phase = p.phase
	p.abandoned = append(p.abandoned, a)
	p.stage, p.word = append([]byte(nil), p.stage...), make([]byte, transport.Granule)
	p.phase, err = p.completion()
	return err
}

// completion returns one without a phase.
func (p *port) completion() (transport.Completion, error) {
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return c, nil
	}
	return p.t.NewCompletion(1)
}

// collect takes the abandoned phases that have ended since.
func (p *port) collect() {
	if len(p.abandoned) == 0 {
		return
	}
	rest := p.abandoned[:0]
	for _, a := range p.abandoned {
		if !a.phase.Test() {
			rest = append(rest, a)
			continue
		}
		if _, err := a.phase.Report(); err == nil {
			p.idle = append(p.idle, a.phase)
		}
		if a.out != nil {
			a.out.Ended(a.step)
		}
		if a.board != nil {
			a.board.Ended()
		}
	}
	clear(p.abandoned[len(rest):])
	p.abandoned = rest
}

// pause waits before the attempt after the given number of them, longer after
// each, and differently long on each rank; not at all after the first; after none it
// only gives the processor away. It ends with the call's deadline and context, and with
// Stop.
func (p *port) pause(attempts, peer int) error {
	if err := p.wait.stop.Err(); err != nil {
		return err
	}
	if attempts == 1 {
		return nil
	}
	now := p.wait.startClock()
	if err := p.wait.expired(now); err != nil {
		return &WaitError{Peer: peer, Err: err}
	}
	if attempts == 0 {
		p.wait.yield(goschedPer - 1)
		return nil
	}
	d := p.retry.Backoff
	for i := 2; i < attempts && d < p.retry.MaxBackoff; i++ {
		d *= 2
	}
	d = min(d, p.retry.MaxBackoff)
	d = d/2 + rand.N(d/2+1)
	if d >= 50*time.Microsecond {
		time.Sleep(d)
		return nil
	}
	for i := 0; time.Since(now) < d; i++ {
		// To give the processor away takes longer than most of these.
		if polls, pauses := p.wait.spins(); polls == spinPolls {
			spinPause(pauses)
		} else {
			p.wait.yield(i)
		}
	}
	return nil
}

// padded returns the first n bytes of stage, up to a whole unit, with zeros
// behind them.
func padded(stage []byte, n int) []byte {
	end := roundUp(n)
	clear(stage[n:end])
	return stage[:end]
}

func roundUp(n int) int { return (n + transport.Granule - 1) / transport.Granule * transport.Granule }
