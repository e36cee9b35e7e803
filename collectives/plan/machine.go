package plan

import (
	"fmt"
	"slices"
	"strings"
)

// A machine executes the schedules of all ranks symbolically, calls times.
type machine struct {
	shape     Shape
	schedules []*Schedule
	calls     int
	inPlace   bool
	symbols   *symbols

	procs  []*process
	lanes  []lane // from·ranks + to
	begun  [][]uint32
	failed *VerifyError
	order  []*order
}

// A process is one rank.
type process struct {
	rank  int
	call  int
	step  int
	done  bool
	clock clock

	mem    [Multi + 1]memory
	inbox  []message
	multi  []shadow   // of this rank's replica
	boards [][]posted // what others and it have posted there, by rank
	heard  []uint32   // by rank: the epoch in which it sent the last message that came from it

	posts [Slots]uint32 // epochs in which the latest postings to its own cells began
	under []Range       // what is put to all and not waited for

	touched [][]uint32 // per call and rank: the last epoch in which it touched this replica
	ended   []clock    // per call
	told    [][]uint32 // heard, per call, when it ended
	posted  []uint32   // per call: the last epoch in which it posted
	trace   uint64     // a hash of all that others can see
}

// posted is an element of a board.
type posted struct {
	of value
	shadow
}

// memory is a buffer: part of a piece of memory, from element base on.
type memory struct {
	id   Buffer // of the piece, named by the buffer that is all of it
	base int
	of   []value
}

func (m memory) part(at, n int) memory {
	return memory{id: m.id, base: m.base + at, of: m.of[at : at+n]}
}

type message struct {
	full           bool
	of             []value
	clock          clock
	stage, segment int
}

type lane struct {
	queue          []message
	sent, released int
}

func (m *machine) lane(from, to int) *lane { return &m.lanes[from*m.shape.Ranks+to] }

func newMachine(schedules []*Schedule, calls int, inPlace bool, y *symbols) *machine {
	s := schedules[0].Shape
	m := &machine{shape: s, schedules: schedules, calls: calls, inPlace: inPlace, symbols: y,
		procs: make([]*process, s.Ranks), lanes: make([]lane, s.Ranks*s.Ranks), begun: make([][]uint32, calls)}
	for i := range m.begun {
		m.begun[i] = make([]uint32, s.Ranks)
	}
	for r := range m.procs {
		p := &process{rank: r, clock: make(clock, s.Ranks), inbox: make([]message, s.Ranks),
			multi: make([]shadow, schedules[r].MultiElems), ended: make([]clock, calls), touched: make([][]uint32, calls),
			boards: make([][]posted, s.Ranks), heard: make([]uint32, s.Ranks), told: make([][]uint32, calls), posted: make([]uint32, calls)}
		for i := range p.boards {
			p.boards[i] = make([]posted, Slots*schedules[r].CellElems)
		}
		for i := range p.touched {
			p.touched[i] = make([]uint32, s.Ranks)
		}
		p.mem[Multi] = memory{id: Multi, of: make([]value, schedules[r].MultiElems)}
		m.procs[r] = p
		m.begin(p)
	}
	return m
}

// begin gives a rank the memory of its next call.
func (m *machine) begin(p *process) {
	s, r := m.shape, p.rank
	recv := memory{id: Recv, of: make([]value, s.recvElems(r))}
	send := memory{id: Send, of: make([]value, s.sendElems(r))}
	switch {
	case !m.inPlace || len(recv.of) == 0 || len(send.of) == 0:
	case len(send.of) <= len(recv.of):
		send = recv.part(s.own(r), len(send.of))
	default:
		recv = send.part(s.own(r), len(recv.of))
	}
	for i := range send.of {
		send.of[i] = m.symbols.leaf(p.call, r, i)
	}
	if s.Collective == Broadcast && r == s.Root {
		for i := range recv.of {
			recv.of[i] = m.symbols.leaf(p.call, r, i)
		}
	}
	p.mem[Send], p.mem[Recv] = send, recv
	p.mem[Scratch] = memory{id: Scratch, of: make([]value, m.schedules[r].ScratchElems)}
	p.clock[r]++
	m.begun[p.call][r] = p.clock[r]
}

// run executes everything: each rank as far as it gets, in turn.
func (m *machine) run() error {
	for {
		moved, done := false, 0
		for _, p := range m.procs {
			for !p.done && m.advance(p) {
				moved = true
			}
			if m.failed != nil {
				return m.failed
			}
			if p.done {
				done++
			}
		}
		if done == len(m.procs) {
			return m.finish()
		}
		if !moved {
			return m.deadlock()
		}
	}
}

// advance does a rank's next step, or ends its call. It says whether it could.
func (m *machine) advance(p *process) bool {
	steps := m.schedules[p.rank].Steps
	if p.step < len(steps) {
		if !m.execute(p, &steps[p.step]) {
			return false
		}
		p.step++
		return true
	}
	if m.failed = m.result(p); m.failed != nil {
		return false
	}
	p.ended[p.call], p.told[p.call] = slices.Clone(p.clock), slices.Clone(p.heard)
	p.under = p.under[:0]
	p.call, p.step = p.call+1, 0
	if p.done = p.call == m.calls; !p.done {
		m.begin(p)
	}
	return true
}

// fail says that the current step of p is wrong.
func (m *machine) fail(p *process, format string, args ...any) bool {
	m.failed = m.errorAt(p.rank, p.step, p.call, fmt.Sprintf(format, args...))
	return false
}

func (m *machine) errorAt(rank, step, call int, why string) *VerifyError {
	e := &VerifyError{Algorithm: m.schedules[0].Algorithm, Shape: m.shape, Rank: rank, Step: step, Call: call, InPlace: m.inPlace, Why: why}
	if rank >= 0 && step >= 0 && step < len(m.schedules[rank].Steps) {
		s := m.schedules[rank].Steps[step]
		e.What = &s
	}
	return e
}

// execute does a step; false: it is blocked, or wrong.
func (m *machine) execute(p *process, s *Step) bool {
	if why := m.checkStep(p, s); why != "" {
		return m.fail(p, "%s", why)
	}
	switch s.Kind {
	case Put:
		return m.put(p, s)
	case Wait:
		return m.wait(p, s)
	case Release:
		if !p.inbox[s.Peer].full {
			return m.fail(p, "releases what it did not wait for")
		}
		p.inbox[s.Peer] = message{}
		m.lane(s.Peer, p.rank).released++
		return true
	case Copy:
		src, ok := m.read(p, s.Srcs[0])
		return ok && m.write(p, s.Dst, slices.Clone(src))
	case Combine:
		return m.combine(p, s)
	case PullReduce:
		return m.pullReduce(p, s)
	}
	return m.putMulti(p, s)
}

func (m *machine) put(p *process, s *Step) bool {
	l := m.lane(p.rank, s.Peer)
	if l.sent-l.released >= m.shape.Cells {
		return false
	}
	src, ok := m.read(p, s.Srcs[0])
	if !ok {
		return false
	}
	l.queue = append(l.queue, message{full: true, of: slices.Clone(src), clock: slices.Clone(p.clock), stage: s.Stage, segment: s.Segment})
	l.sent++
	p.clock[p.rank]++
	p.under = p.under[:0]
	p.see(uint64(s.Peer), src)
	return true
}

func (m *machine) wait(p *process, s *Step) bool {
	l := m.lane(s.Peer, p.rank)
	if p.inbox[s.Peer].full {
		return m.fail(p, "comes before the message before was released")
	}
	if len(l.queue) == 0 {
		return false
	}
	got := l.queue[0]
	l.queue = l.queue[1:]
	if len(got.of) != s.Elems {
		return m.fail(p, "gets a message of %d elements, that of stage %d, segment %d", len(got.of), got.stage, got.segment)
	}
	if got.stage != s.Stage || got.segment != s.Segment {
		return m.fail(p, "gets the message of stage %d, segment %d", got.stage, got.segment)
	}
	p.inbox[s.Peer] = got
	p.clock.join(got.clock)
	p.heard[s.Peer] = got.clock[s.Peer]
	return true
}

func (m *machine) combine(p *process, s *Step) bool {
	srcs := make([][]value, len(s.Srcs))
	for i, r := range s.Srcs {
		var ok bool
		if srcs[i], ok = m.read(p, r); !ok {
			return false
		}
	}
	dst := make([]value, s.Dst.Len())
	list := make([]value, len(srcs))
	for i := range dst {
		for j := range srcs {
			list[j] = srcs[j][i]
		}
		if why := m.symbols.refuse(list, s.Complete); why != "" {
			return m.fail(p, "%s", why)
		}
		dst[i] = m.symbols.combine(list, s.Complete)
	}
	return m.write(p, s.Dst, dst)
}

func (m *machine) pullReduce(p *process, s *Step) bool {
	src := s.Srcs[0]
	dst := make([]value, src.Len())
	list := make([]value, m.shape.Ranks)
	for i := range dst {
		for r := range list {
			if !m.touchMulti(p, r, src.From+i, false) {
				return false
			}
			list[r] = m.procs[r].mem[Multi].of[src.From+i]
		}
		if why := m.symbols.refuse(list, s.Complete); why != "" {
			return m.fail(p, "%s", why)
		}
		dst[i] = m.symbols.combine(list, s.Complete)
	}
	if s.Dst.Buf == Scratch { // a last granule that is not full is written as a whole
		clear(p.mem[Scratch].of[s.Dst.To:roundUp(s.Dst.To, m.shape.unit())])
	}
	return m.write(p, s.Dst, dst)
}

func (m *machine) putMulti(p *process, s *Step) bool {
	src, ok := m.read(p, s.Srcs[0])
	if !ok {
		return false
	}
	p.see(uint64(s.Dst.From), src)
	cell, now := m.cell(), p.clock[p.rank]
	slot := s.Dst.From / cell
	if p.posts[slot] != now {
		// A new posting, maybe in other memory: what the cell held is gone.
		p.posts[slot] = now
		if !m.post(p, slot*cell, make([]value, cell)) {
			return false
		}
	}
	p.posted[p.call] = now
	p.under = append(p.under, s.Srcs[0])
	whole := make([]value, roundUp(len(src), m.shape.unit())) // here as well
	copy(whole, src)
	return m.post(p, s.Dst.From, whole)
}

// post has elements of a rank's board be what they are in all replicas.
func (m *machine) post(p *process, from int, of []value) bool {
	for r, q := range m.procs {
		for i, v := range of {
			x := &q.boards[p.rank][from+i]
			if !m.touch(p, r, &x.shadow, true, Board, from+i) {
				return false
			}
			x.of = v
		}
	}
	return true
}

// cell is the number of elements of a cell.
func (m *machine) cell() int { return m.schedules[0].CellElems }

// see notes what others can see of p, to compare executions.
func (p *process) see(where uint64, of []value) {
	p.trace = mix(p.trace, where)
	for _, v := range of {
		p.trace = mix(p.trace, uint64(v))
	}
}

// read returns the elements of a range in place.
func (m *machine) read(p *process, r Range) ([]value, bool) {
	if r.Buf == Inbox {
		return p.inbox[r.Peer].of[r.From:r.To], true
	}
	if r.Buf == Board {
		return m.readBoard(p, r)
	}
	of := p.mem[r.Buf].of[r.From:r.To]
	if i := slices.Index(of, 0); i >= 0 {
		return nil, m.fail(p, "reads %v[%d], which nobody wrote", r.Buf, r.From+i)
	}
	for i := range of {
		if r.Buf == Multi && !m.touchMulti(p, p.rank, r.From+i, false) {
			return nil, false
		}
	}
	return of, true
}

// readBoard returns what a rank has posted.
func (m *machine) readBoard(p *process, r Range) ([]value, bool) {
	of := make([]value, r.Len())
	heard := p.heard[r.Peer]
	if r.Peer == p.rank {
		heard = p.clock[p.rank] - 1 // it has sent a message since then
	}
	for i := range of {
		x := &p.boards[r.Peer][r.From+i]
		if !m.touch(p, p.rank, &x.shadow, false, Board, r.From+i) {
			return nil, false
		}
		if x.of == 0 {
			return nil, m.fail(p, "reads %v[%d] of rank %d, which the latest posting does not have", r.Buf, r.From+i, r.Peer)
		}
		if x.wrote.epoch > heard {
			return nil, m.fail(p, "reads %v[%d] of rank %d, of which no message from that rank has told", r.Buf, r.From+i, r.Peer)
		}
		of[i] = x.of
	}
	return of, true
}

func (m *machine) write(p *process, r Range, of []value) bool {
	for _, x := range p.under {
		if m.meet(p, r, x) {
			return m.fail(p, "overwrites %v, which is put to all and not waited for", x)
		}
	}
	for i := range of {
		if r.Buf == Multi && !m.touchMulti(p, p.rank, r.From+i, true) {
			return false
		}
	}
	if r.Buf == Multi {
		p.see(uint64(r.From), of)
	}
	copy(p.mem[r.Buf].of[r.From:r.To], of)
	return true
}

// touchMulti notes an access of p to what a rank contributes.
func (m *machine) touchMulti(p *process, replica, at int, write bool) bool {
	return m.touch(p, replica, &m.procs[replica].multi[at], write, Multi, at)
}

// touch notes an access of p to an element of the replica of a rank and refuses it if
// it may meet another one.
func (m *machine) touch(p *process, replica int, s *shadow, write bool, buf Buffer, at int) bool {
	if replica != p.rank {
		for q, epoch := range m.begun[p.call] {
			if epoch == 0 || !p.clock.knows(q, epoch) {
				return m.fail(p, "touches the replica of rank %d before it knows that rank %d began the call", replica, q)
			}
		}
		m.procs[replica].touched[p.call][p.rank] = p.clock[p.rank]
	}
	now := access{rank: p.rank, epoch: p.clock[p.rank], step: p.step, call: p.call}
	verb := "reads"
	var other access
	ok := false
	if write {
		verb = "writes"
		other, ok = s.write(p.clock, now)
	} else {
		other, ok = s.read(p.clock, now)
	}
	if ok {
		return true
	}
	return m.fail(p, "%s %v[%d] of rank %d with no message between that and step %d of rank %d (%v)%s", verb, buf, at, replica,
		other.step, other.rank, m.schedules[other.rank].Steps[other.step], earlier(p.call-other.call))
}

func earlier(calls int) string {
	if calls == 0 {
		return ""
	}
	return fmt.Sprintf(", %d calls earlier", calls)
}

// deadlock says who waits for whom.
func (m *machine) deadlock() error {
	var stuck []string
	var first *process
	for _, p := range m.procs {
		if p.done {
			continue
		}
		if first == nil {
			first = p
		}
		if len(stuck) < 8 {
			s := m.schedules[p.rank].Steps[p.step]
			what := fmt.Sprintf("rank %d for a message of rank %d", p.rank, s.Peer)
			if s.Kind == Put {
				what = fmt.Sprintf("rank %d for a free cell at rank %d", p.rank, s.Peer)
			}
			stuck = append(stuck, what)
		}
	}
	return m.errorAt(first.rank, first.step, first.call, "never ends, as nobody can go on: "+strings.Join(stuck, ", "))
}

// finish checks what must hold when all ranks are through.
func (m *machine) finish() error {
	n := m.shape.Ranks
	for i := range m.lanes {
		if l, from, to := &m.lanes[i], i/n, i%n; len(l.queue) > 0 {
			left := l.queue[0]
			return m.errorAt(to, -1, m.calls-1, fmt.Sprintf("does not wait for %d messages from rank %d, the first of stage %d, segment %d", len(l.queue), from, left.stage, left.segment))
		}
	}
	for call := range m.calls {
		for r, p := range m.procs {
			for q, epoch := range p.touched[call] {
				if !p.ended[call].knows(q, epoch) {
					return m.errorAt(r, -1, call, fmt.Sprintf("ends before it knows that rank %d is through with its replica", q))
				}
			}
			for q, of := range m.procs {
				if q != r && of.posted[call] > p.told[call][q] {
					return m.errorAt(r, -1, call, fmt.Sprintf("ends before a message told it of the last posting of rank %d", q))
				}
			}
		}
	}
	return nil
}

// result checks what a rank has when a call ends.
func (m *machine) result(p *process) *VerifyError {
	bad := func(format string, args ...any) *VerifyError {
		return m.errorAt(p.rank, -1, p.call, fmt.Sprintf(format, args...))
	}
	for q := range p.inbox {
		if p.inbox[q].full {
			return bad("does not release the last message from rank %d", q)
		}
	}
	if m.shape.Collective == Barrier {
		for q, epoch := range m.begun[p.call] {
			if epoch == 0 || !p.clock.knows(q, epoch) {
				return bad("ends before it knows that rank %d began", q)
			}
		}
	}
	for i, got := range p.mem[Recv].of {
		if want := m.want(p.call, p.rank, i); got != want {
			return bad("has %s in recv[%d], where %s must be", m.symbols.text(got), i, m.symbols.text(want))
		}
	}
	send, recv := p.mem[Send], p.mem[Recv]
	for i, got := range send.of {
		result := send.id == recv.id && (send.id == Recv || i >= recv.base && i < recv.base+len(recv.of))
		if !result && got != m.symbols.leaf(p.call, p.rank, i) {
			return bad("has changed send[%d]", i)
		}
	}
	return nil
}
