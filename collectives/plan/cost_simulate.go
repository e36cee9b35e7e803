package plan

import (
	"container/heap"
	"fmt"
)

// A Trace is what happens when all ranks do their schedules.
type Trace struct {
	Steps    [][]StepTime // of each rank
	Messages []Message    // in the order in which they were sent by the simulation
	RankNs   []float64    // when each rank is done
	TotalNs  float64      // when all are
}

// A StepTime is when a rank does a step. From StartNs to ReadyNs it is blocked.
type StepTime struct{ StartNs, ReadyNs, EndNs float64 }

// A Message is a Put and the Wait that gets it.
type Message struct {
	From, FromStep int
	To, ToStep     int // ToStep is −1 if nobody waits for it
	SentNs         float64
	ArriveNs       float64
}

// Time simulates the schedules of all ranks, in the order of the ranks, and
// returns when each rank is done, and when all are. All ranks begin at once.
// Schedules that don't fit together are an error.
func (m *Model) Time(schedules []*Schedule, t Topology) (perRankNs []float64, totalNs float64, err error) {
	s, err := newSimulation(m, schedules, t, nil)
	if err != nil {
		return nil, 0, err
	}
	if err := s.run(); err != nil {
		return nil, 0, err
	}
	perRankNs, totalNs = s.ends()
	return perRankNs, totalNs, nil
}

// Trace is Time that tells what happened when.
func (m *Model) Trace(schedules []*Schedule, t Topology) (*Trace, error) {
	tr := &Trace{Steps: make([][]StepTime, len(schedules))}
	s, err := newSimulation(m, schedules, t, tr)
	if err != nil {
		return nil, err
	}
	if err := s.run(); err != nil {
		return nil, err
	}
	tr.RankNs, tr.TotalNs = s.ends()
	return tr, nil
}

// A simulation runs the steps of all ranks. A rank runs on until it is blocked.
// What it does to others (a message, a freed cell) has a time at which they see
// it, so that the order in which ranks run changes nothing, except where they
// share wires: then the rank that is behind all others runs next.
type simulation struct {
	m        *Model
	shm, net Link
	ranks    []simRank
	lanes    []*simLane // from·n + to; nil until used
	n, cells int
	elem     float64 // bytes of an element
	wireFree []float64
	ready    rankQueue
	shared   bool // wires: several nodes
	trace    *Trace
}

type simRank struct {
	steps   []Step
	next    int
	nowNs   float64
	node    int
	blocked bool // in the next step, since nowNs
	queued  bool
}

// A simLane has when each message arrives and when its cell is free again, as
// the sender sees it.
type simLane struct {
	arriveNs []float64
	freeNs   []float64
	waits    int
	messages []int // in the trace
}

func newSimulation(m *Model, schedules []*Schedule, t Topology, tr *Trace) (*simulation, error) {
	n := len(schedules)
	if n == 0 {
		return nil, fmt.Errorf("plan: no schedules")
	}
	if err := t.check(n); err != nil {
		return nil, err
	}
	s := &simulation{m: m, shm: m.Links[LinkShm], net: m.Links[LinkNet], n: n, trace: tr,
		ranks: make([]simRank, n), lanes: make([]*simLane, n*n)}
	nodes := 0
	for r, sc := range schedules {
		switch {
		case sc == nil:
			return nil, fmt.Errorf("plan: no schedule of rank %d", r)
		case sc.Rank != r || sc.Shape != schedules[0].Shape || sc.Shape.Ranks != n:
			return nil, fmt.Errorf("plan: the schedule in place %d of %d is of rank %d of %d, or of another shape",
				r, n, sc.Rank, sc.Shape.Ranks)
		}
		s.ranks[r] = simRank{steps: sc.Steps, node: t.node(r), nowNs: m.CallNs, queued: true}
		s.ready = append(s.ready, readyRank{m.CallNs, r})
		nodes = max(nodes, t.node(r)+1)
		if tr != nil {
			tr.Steps[r] = make([]StepTime, 0, len(sc.Steps))
		}
	}
	if s.shared = t.several(); s.shared {
		s.wireFree = make([]float64, nodes)
	}
	s.cells = schedules[0].Shape.Cells
	s.elem = float64(schedules[0].Shape.ElemBytes)
	return s, nil
}

func (s *simulation) ends() (perRankNs []float64, totalNs float64) {
	perRankNs = make([]float64, s.n)
	for r := range s.ranks {
		perRankNs[r] = s.ranks[r].nowNs
		totalNs = max(totalNs, perRankNs[r])
	}
	return perRankNs, totalNs
}

func (s *simulation) run() error {
	heap.Init(&s.ready)
	for len(s.ready) > 0 {
		r := heap.Pop(&s.ready).(readyRank).rank
		s.ranks[r].queued = false
		if err := s.runRank(r); err != nil {
			return err
		}
	}
	for r := range s.ranks {
		if k := &s.ranks[r]; k.next < len(k.steps) {
			st := &k.steps[k.next]
			return fmt.Errorf("plan: deadlock: rank %d never gets past step %d, %s rank %d", r, k.next, st.Kind, st.Peer)
		}
	}
	return nil
}

// runRank runs a rank until it is blocked, done, or ahead of another where that
// matters.
func (s *simulation) runRank(r int) error {
	k := &s.ranks[r]
	for k.next < len(k.steps) {
		st := &k.steps[k.next]
		startNs := k.nowNs
		readyNs, blocked, err := s.readyNs(r, st)
		if err != nil {
			return fmt.Errorf("plan: rank %d, step %d: %w", r, k.next, err)
		}
		if k.blocked = blocked; blocked {
			return nil
		}
		readyNs = max(readyNs, startNs)
		if s.shared && len(s.ready) > 0 && s.ready[0].before(readyRank{readyNs, r}) {
			s.enqueue(r, readyNs)
			return nil
		}
		k.nowNs = readyNs + s.m.StepNs + s.cost(r, st)
		s.effects(r, st)
		if s.trace != nil {
			s.trace.Steps[r] = append(s.trace.Steps[r], StepTime{startNs, readyNs, k.nowNs})
		}
		k.next++
	}
	return nil
}

// readyNs is when a step can begin, as far as others are concerned. If that is
// not known yet, the rank is blocked and will be woken.
func (s *simulation) readyNs(r int, st *Step) (ns float64, blocked bool, err error) {
	switch st.Kind {
	case Put, Copy, PutMulti, PullReduce:
		if len(st.Srcs) != 1 {
			return 0, false, fmt.Errorf("%s has %d sources", st.Kind, len(st.Srcs))
		}
	}
	switch st.Kind {
	case Put, Wait, Release:
		if st.Peer < 0 || st.Peer >= s.n {
			return 0, false, fmt.Errorf("%s, rank %d of %d", st.Kind, st.Peer, s.n)
		}
	}
	switch st.Kind {
	case Put:
		if s.cells < 1 {
			return 0, false, fmt.Errorf("the shape has %d cells", s.cells)
		}
		l := s.lane(r, st.Peer)
		if i := len(l.arriveNs) - s.cells; i >= 0 {
			if i >= len(l.freeNs) {
				return 0, true, nil
			}
			return l.freeNs[i], false, nil
		}
	case Wait:
		l := s.lane(st.Peer, r)
		if l.waits >= len(l.arriveNs) {
			return 0, true, nil
		}
		return l.arriveNs[l.waits], false, nil
	case Release:
		if l := s.lane(st.Peer, r); len(l.freeNs) >= l.waits {
			return 0, false, fmt.Errorf("a release without a message from rank %d", st.Peer)
		}
	}
	return 0, false, nil
}

// cost is how long a step keeps its rank busy, beyond StepNs.
func (s *simulation) cost(r int, st *Step) float64 {
	m := s.m
	switch st.Kind {
	case Copy:
		return s.bytes(st.Srcs[0])*m.CopyNsPerByte + s.inboxNs(r, st.Srcs)
	case Put:
		l := s.link(r, st.Peer)
		return l.PutNs + s.bytes(st.Srcs[0])*l.PutNsPerByte + s.inboxNs(r, st.Srcs)
	case Wait:
		return s.link(r, st.Peer).WaitNs
	case Release:
		return s.link(r, st.Peer).ReleaseNs
	case Combine:
		return s.bytes(st.Dst)*(m.CombineNsPerByte+float64(len(st.Srcs))*m.CombineNsPerByteSource) + s.inboxNs(r, st.Srcs)
	case PullReduce:
		c := m.Multicast
		return c.PullNs + s.bytes(st.Dst)*(c.PullNsPerByte+float64(s.n)*c.PullNsPerByteReplica)
	case PutMulti:
		c := m.Multicast
		return c.PutNs + s.bytes(st.Srcs[0])*(c.PutNsPerByte+float64(s.n)*c.PutNsPerByteReplica) + s.inboxNs(r, st.Srcs)
	}
	return 0
}

// effects makes others see a step that is over now.
func (s *simulation) effects(r int, st *Step) {
	k := &s.ranks[r]
	switch st.Kind {
	case Put:
		l, link := s.lane(r, st.Peer), s.link(r, st.Peer)
		wireNs := s.bytes(st.Srcs[0]) * link.WireNsPerByte
		leaveNs := k.nowNs
		if to := s.ranks[st.Peer].node; to != k.node {
			leaveNs = max(leaveNs, s.wireFree[k.node])
			s.wireFree[k.node] = leaveNs + wireNs
		}
		arriveNs := leaveNs + wireNs + link.LatencyNs
		if i := len(l.arriveNs); i > 0 {
			arriveNs = max(arriveNs, l.arriveNs[i-1]) // messages of a lane arrive in order
		}
		l.arriveNs = append(l.arriveNs, arriveNs)
		if s.trace != nil {
			l.messages = append(l.messages, len(s.trace.Messages))
			s.trace.Messages = append(s.trace.Messages,
				Message{From: r, FromStep: k.next, To: st.Peer, ToStep: -1, SentNs: k.nowNs, ArriveNs: arriveNs})
		}
		s.wakeBlocked(st.Peer)
	case Wait:
		l := s.lane(st.Peer, r)
		if s.trace != nil {
			s.trace.Messages[l.messages[l.waits]].ToStep = k.next
		}
		l.waits++
	case Release:
		l := s.lane(st.Peer, r)
		l.freeNs = append(l.freeNs, k.nowNs+s.link(r, st.Peer).LatencyNs)
		s.wakeBlocked(st.Peer)
	}
}

// wakeBlocked lets a blocked rank look again whether it can go on.
func (s *simulation) wakeBlocked(r int) {
	if k := &s.ranks[r]; k.blocked && !k.queued {
		s.enqueue(r, k.nowNs)
	}
}

func (s *simulation) enqueue(r int, ns float64) {
	s.ranks[r].queued = true
	heap.Push(&s.ready, readyRank{ns, r})
}

func (s *simulation) lane(from, to int) *simLane {
	l := &s.lanes[from*s.n+to]
	if *l == nil {
		*l = new(simLane)
	}
	return *l
}

func (s *simulation) link(a, b int) *Link {
	if s.ranks[a].node == s.ranks[b].node {
		return &s.shm
	}
	return &s.net
}

func (s *simulation) bytes(r Range) float64 { return float64(r.Len()) * s.elem }

// inboxNs is what reading the sources costs more because some are inboxes.
func (s *simulation) inboxNs(rank int, srcs []Range) float64 {
	ns := 0.0
	for i := range srcs {
		if p := srcs[i].Peer; srcs[i].Buf == Inbox && p >= 0 && p < s.n {
			ns += s.bytes(srcs[i]) * s.link(rank, p).InboxNsPerByte
		}
	}
	return ns
}

// A rankQueue has the ranks that may be able to go on, the earliest first.
type rankQueue []readyRank

type readyRank struct {
	nowNs float64
	rank  int
}

func (a readyRank) before(b readyRank) bool {
	if a.nowNs != b.nowNs {
		return a.nowNs < b.nowNs
	}
	return a.rank < b.rank
}

func (q rankQueue) Len() int           { return len(q) }
func (q rankQueue) Less(i, j int) bool { return q[i].before(q[j]) }
func (q rankQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *rankQueue) Push(x any)        { *q = append(*q, x.(readyRank)) }
func (q *rankQueue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}
