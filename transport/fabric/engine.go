package fabric

import (
	"container/heap"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric/faults"
)

// The engine executes submitted operations, one unit at a step: a random unit of
// a random operation. It runs in a goroutine of its own; in the fast mode under a
// fault plan in that of the caller; or by [Transport.Step].
type engine struct {
	t *Transport

	mu      sync.Mutex
	queue   []*op
	running bool // the goroutine
	closed  bool
	wake    chan struct{}
	done    chan struct{} // closed when the goroutine has ended

	step   sync.Mutex // held while a unit is executed
	rng    *rand.Rand
	active []*op
	late   lateQueue
	spare  [][]byte      // to copy sources to
	lateN  atomic.Int64  // of late
	due    atomic.Uint64 // the step of the first of them
	steps  atomic.Uint64
}

// idleTick is how often the steps of an engine that has nothing to do advance
// when something is late, and busyTick how often, at most, it looks whether it has
// when the goroutines that start operations advance them.
const (
	idleTick = 2 * time.Millisecond
	busyTick = 64 * time.Millisecond
)

func (g *engine) init(t *Transport) {
	g.t = t
	g.rng = rand.New(rand.NewPCG(t.cfg.seed, uint64(t.cfg.rank)))
	g.wake, g.done = make(chan struct{}, 1), make(chan struct{})
}

// submit hands operations over to the engine.
func (g *engine) submit(ops []*op) {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		for _, o := range ops {
			o.failed = true
			o.finish()
		}
		return
	}
	g.queue = append(g.queue, ops...)
	inline := g.t.cfg.mode == ModeFast
	if !inline && !g.t.cfg.heldBack {
		g.run()
	}
	g.mu.Unlock()
	if g.t.cfg.heldBack {
		return
	}
	if inline {
		g.step.Lock()
		for g.unit() {
		}
		g.step.Unlock()
		return
	}
	g.nudge()
}

// run starts the goroutine if there is none. g.mu is held.
func (g *engine) run() {
	if !g.running && !g.closed {
		g.running = true
		go g.loop()
	}
}

func (g *engine) nudge() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

func (g *engine) loop() {
	defer close(g.done)
	timer, tick := time.NewTimer(idleTick), idleTick
	before := uint64(0) // steps
	for i := 0; ; i++ {
		if g.once() {
			// Let others see the states between two units.
			if g.t.strict() || i%8 == 7 {
				runtime.Gosched()
			}
			continue
		}
		g.mu.Lock()
		closed, empty := g.closed, len(g.queue) == 0
		g.mu.Unlock()
		if closed {
			return
		}
		if !empty {
			continue
		}
		if g.lateness() == 0 {
			<-g.wake
			continue
		}
		timer.Reset(tick)
		select {
		case <-g.wake:
		case <-timer.C:
			if now := g.steps.Load(); now != before {
				before, tick = now, min(2*tick, busyTick)
				continue
			}
			g.tick()
			before, tick = g.steps.Load(), idleTick
		}
	}
}

// once executes one unit, after whatever is due by then. It returns false if
// there is nothing to execute.
func (g *engine) once() bool {
	g.step.Lock()
	defer g.step.Unlock()
	return g.unit()
}

// unit is once with the step lock held.
func (g *engine) unit() bool {
	g.mu.Lock()
	for _, o := range g.queue {
		o.shuffle(g.rng)
		g.active = append(g.active, o)
	}
	g.queue = g.queue[:0]
	g.mu.Unlock()
	if len(g.active) == 0 {
		return false
	}
	g.advance()
	i := g.rng.IntN(len(g.active))
	o := g.active[i]
	if o.next < len(o.order) {
		g.execute(o, int(o.order[o.next]))
		o.next++
	}
	if o.next >= len(o.order) {
		last := len(g.active) - 1
		g.active[i], g.active[last] = g.active[last], nil
		g.active = g.active[:last]
		g.postpone(o)
		o.done = true
		o.finish()
	}
	return true
}

// shuffle decides in which order the units are executed.
func (o *op) shuffle(rng *rand.Rand) {
	n := o.units()
	o.order, o.next, o.done = o.order[:0], 0, false
	for u := range n {
		o.order = append(o.order, uint16(u))
	}
	rng.Shuffle(n, func(i, j int) { o.order[i], o.order[j] = o.order[j], o.order[i] })
}

// execute executes a unit, unless a fault says otherwise.
func (g *engine) execute(o *op, unit int) {
	if o.fault.When(o.first+unit, o.total) != faults.Now {
		return
	}
	if !o.perform(unit) {
		o.fail()
	}
}

// fail notes that the operation can't be executed in full.
func (o *op) fail() {
	if o.failed {
		return
	}
	o.failed = true
	if t := o.e.t; t.strict() {
		t.diag.add(t.broken(RuleUnboundTarget, o.kind.String(), transport.ErrUnknownEndpoint).at(o.e, o.offset, uint64(o.n)))
	}
}

// launch notes that the operation is under way.
func (o *op) launch() {
	o.c.flying.Add(1)
	o.e.flying.Add(1)
	for _, p := range o.parts {
		p.blk.flights(p.user).Add(1)
	}
}

// finish is the reverse. The completion may use the op for something else as
// soon as it has returned.
func (o *op) finish() {
	c := o.c
	if o.failed {
		c.errors.Add(1)
	}
	for _, p := range o.parts {
		p.blk.flights(p.user).Add(^uint64(0))
	}
	o.e.flying.Add(-1)
	c.flying.Add(-1)
}

// submit submits those of the operations started so far that which chooses.
func (c *Completion) submit(which func(*op) bool) {
	if len(c.unsubmitted) == 0 {
		return
	}
	start := len(c.submitted)
	rest := c.unsubmitted[:0]
	for _, o := range c.unsubmitted {
		if which(o) {
			c.submitted = append(c.submitted, o)
		} else {
			rest = append(rest, o)
		}
	}
	clear(c.unsubmitted[len(rest):])
	c.unsubmitted = rest
	ops := c.submitted[start:]
	c.decide(ops)
	if c.t.cfg.mode == ModeFast && !c.t.cfg.heldBack && allWell(ops) {
		c.performAll(ops)
		return
	}
	for _, o := range ops {
		o.launch()
	}
	c.t.engine.submit(ops)
}

// allWell says that a plan of faults leaves operations alone.
func allWell(ops []*op) bool {
	for _, o := range ops {
		if o.fault != (faults.Fault{}) {
			return false
		}
	}
	return true
}

// performAll executes operations at once.
func (c *Completion) performAll(ops []*op) {
	for _, o := range ops {
		c.t.engine.pass()
		if !o.performWhole() {
			c.errors.Add(1)
		}
		o.done = true
	}
}

// readSources has operations that are not finished work on copies of their
// sources. Those that are have read them.
func (g *engine) readSources(ops []*op) {
	g.step.Lock()
	defer g.step.Unlock()
	for _, o := range ops {
		if o.done {
			o.owned = true
		}
		o.own(nil)
	}
}

// abandon forgets what a completion has under way.
func (g *engine) abandon(c *Completion) {
	g.step.Lock()
	defer g.step.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, list := range []*[]*op{&g.queue, &g.active} {
		rest := (*list)[:0]
		for _, o := range *list {
			if o.c == c {
				o.finish()
			} else {
				rest = append(rest, o)
			}
		}
		*list = rest
	}
}

// close ends the engine. What was not executed fails; what is late never comes.
func (g *engine) close() {
	g.step.Lock()
	g.mu.Lock()
	g.closed = true
	running := g.running
	g.mu.Unlock()
	for _, list := range []*[]*op{&g.queue, &g.active} {
		for _, o := range *list {
			o.failed = true // without a word: completions that were dropped are reported
			o.finish()
		}
		*list = nil
	}
	g.late = nil
	g.lateN.Store(0)
	g.step.Unlock()
	if running {
		g.nudge()
		<-g.done
	}
}

// Step executes one piece of one submitted operation, after what is due by then.
// It returns false if no operation is under way; then time passes for what is late.
// It is for fabrics made with [WithSteps].
func (t *Transport) Step() bool {
	if t.engine.once() {
		return true
	}
	t.engine.tick()
	return false
}

// A latePiece is a unit that is executed after its phase was reported. It is an
// operation of its own.
type latePiece struct {
	due uint64 // step
	o   *op
}

// lateQueue is a heap by due.
type lateQueue []latePiece

// due is the step of the first.
func (q lateQueue) due() uint64 {
	if len(q) == 0 {
		return ^uint64(0)
	}
	return q[0].due
}

func (q lateQueue) Len() int           { return len(q) }
func (q lateQueue) Less(i, j int) bool { return q[i].due < q[j].due }
func (q lateQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *lateQueue) Push(x any)        { *q = append(*q, x.(latePiece)) }
func (q *lateQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = latePiece{}
	*q = old[:len(old)-1]
	return last
}

// postpone puts the units of an operation that come late into the queue. They
// read the source as it is now: the phase is about to end.
func (g *engine) postpone(o *op) {
	if o.fault.Kind != faults.Late {
		return
	}
	first := g.lateN.Load() == 0
	for u := range o.units() {
		delay := o.fault.When(o.first+u, o.total)
		if delay == faults.Now || delay == faults.Never {
			continue
		}
		now := g.steps.Load()
		due := now + uint64(delay)
		if due < now {
			due = ^uint64(0)
		}
		heap.Push(&g.late, latePiece{due, g.keep(o.only(u))})
		g.lateN.Add(1)
	}
	g.due.Store(g.late.due())
	if first && g.lateN.Load() != 0 {
		g.mu.Lock()
		if !g.t.cfg.heldBack {
			g.run()
		}
		g.mu.Unlock()
		g.nudge()
	}
}

// only returns an operation that is one unit of o.
func (o *op) only(unit int) *op {
	p := new(op)
	*p = *o
	p.order = nil
	if !o.fetches() {
		p.parts = o.parts[unit/o.pieces:][:1]
	}
	if o.kind != transport.OpAtom {
		from := unit % o.pieces * o.pieceBytes
		p.n = min(o.pieceBytes, o.n-from)
		p.offset += uint64(from)
		p.local = o.local[from : from+p.n]
	}
	p.cut(1)
	return p
}

// maxSpare and maxSpares bound what is kept to copy sources to.
const (
	maxSpare  = 64 << 10
	maxSpares = 64
)

// keep has an operation read a copy of its source. release gives the copy back.
func (g *engine) keep(o *op) *op {
	var b []byte
	if n := len(g.spare); n > 0 && len(o.source()) <= cap(g.spare[n-1]) {
		b, g.spare = g.spare[n-1], g.spare[:n-1]
	}
	o.owned = false
	o.own(b)
	return o
}

func (g *engine) release(o *op) {
	if b := o.source(); len(b) > 0 && cap(b) <= maxSpare && len(g.spare) < maxSpares {
		g.spare = append(g.spare, b)
	}
}

// popLate executes the first of what is late.
func (g *engine) popLate() {
	p := heap.Pop(&g.late).(latePiece)
	g.lateN.Add(-1)
	p.o.perform(0)
	g.release(p.o)
}

// advance counts a step and executes what is due. What can't be executed any more
// is not: its phase was reported long ago. The step lock is held.
func (g *engine) advance() {
	now := g.steps.Add(1)
	if len(g.late) == 0 || now < g.late[0].due {
		return
	}
	for len(g.late) > 0 && g.late[0].due <= now {
		g.popLate()
	}
	g.due.Store(g.late.due())
}

func (g *engine) tick() {
	g.step.Lock()
	defer g.step.Unlock()
	g.advance()
}

// pass counts a step for what is late, and executes what is due by then.
func (g *engine) pass() {
	if g.lateN.Load() == 0 || g.steps.Add(1) < g.due.Load() {
		return
	}
	g.tick()
}

func (g *engine) lateness() int { return int(g.lateN.Load()) }

// Late returns how many pieces of reported operations are still to be executed.
func (t *Transport) Late() int { return t.engine.lateness() }

// Drain executes everything that is late: also the rest of gets, to where they were
// to fetch.
func (t *Transport) Drain() {
	g := &t.engine
	g.step.Lock()
	defer g.step.Unlock()
	for len(g.late) > 0 {
		g.popLate()
	}
	g.due.Store(g.late.due())
}
