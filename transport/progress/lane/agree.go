package lane

import "math/bits"

// Ranks is a set of ranks, a bit each. It grows as needed.
type Ranks []uint64

// Has says whether a rank is in the set.
func (s Ranks) Has(rank int) bool {
	return rank>>6 < len(s) && s[rank>>6]>>(rank&63)&1 != 0
}

// Add puts a rank into the set, and says whether that is news.
func (s *Ranks) Add(rank int) bool {
	for rank>>6 >= len(*s) {
		*s = append(*s, 0)
	}
	if s.Has(rank) {
		return false
	}
	(*s)[rank>>6] |= 1 << (rank & 63)
	return true
}

// Merge adds all of another set below n, and says whether that is news.
func (s *Ranks) Merge(other Ranks, n int) (news bool) {
	for i, w := range other {
		for ; w != 0; w &= w - 1 {
			if rank := i<<6 + bits.TrailingZeros64(w); rank < n {
				news = s.Add(rank) || news
			}
		}
	}
	return news
}

func (s Ranks) clone() Ranks { return append(Ranks(nil), s...) }

// A NoticeKind says what a [Notice] is.
type NoticeKind uint8

const (
	// NoticePropose asks the registrar to register a failure.
	NoticePropose NoticeKind = iota
	// NoticeAsk is from a registrar that takes over: what do you hold?
	NoticeAsk
	// NoticeAnswer is the answer to it, and the promise to take nothing from those
	// before it any more.
	NoticeAnswer
	// NoticeTell is the registrar's word which failure it is.
	NoticeTell
	// NoticeAck says that the sender holds it.
	NoticeAck
	// NoticeFinal says that all hold it who have not been found silent.
	NoticeFinal
	// NoticeRefuse is to a registrar that was passed over.
	NoticeRefuse
	// NoticeVote says that the sender's part of an epoch is done.
	NoticeVote
	// NoticeCommit says that everybody's is.
	NoticeCommit
	noticeKinds
)

// A Notice is what ranks send each other to agree on a failure, which is an F. They
// have it in the order in which it was sent, if at all.
type Notice[F any] struct {
	Kind   NoticeKind
	Ballot int   // the registrar that it is from, or that it answers
	Out    Ranks // those that the sender knows to be out
	// Holds: Failure is there. An Answer has the one that its sender was told, and who
	// told it in By.
	Holds   bool
	Failure F
	By      int
	// Committed is the last epoch that is committed, and where there is a failure the
	// last before it; of a Vote the one voted for.
	Committed uint64
}

// A Sending is a notice for a rank.
type Sending[F any] struct {
	To int
	Notice[F]
}

type agreePhase uint8

const (
	agreeIdle    agreePhase = iota
	agreeAsking             // of a registrar: whether anybody holds a failure
	agreeTelling            // its own
	agreeFinal              // it is known what failed
)

// An Agreement is one rank's part in agreeing on what ends a communicator, and, with
// commit, on which epochs did not fail. Notices go over the bootstrap channel.
//
// A rank that is dead, has left, or was found silent is out. The lowest that is not is
// the registrar. It registers the first failure that it hears of, tells everybody, and
// when all hold it that are not out, everybody that this is final. Only then does a
// rank return it, the registrar as well. When a registrar is out, the next one first
// asks what the others were told. Who answers takes nothing from an earlier registrar
// any more; so what was final for anybody is what all that are not out hold, and
// the next one finds it. It is the algorithm of Paxos, in which the ballots are the
// ranks and the quorum is all those that are not out.
//
// Who is out is said in every notice. A rank that hears that it is itself, since it
// was silent, is never a registrar again and takes what the others tell it.
//
// Whoever drives it says what it hears, and who is out, and sends what [Agreement.Take]
// returns.
type Agreement[F any] struct {
	rank, ranks int
	out         Ranks

	known bool // a failure was heard of; this one first
	first F
	asked int // last registrar to which it was proposed, or which knows of one; −1

	promised int // nothing is taken from registrars before this one
	held     bool
	failure  F      // that this rank was told,
	after    uint64 // with the last epoch that did not fail,
	by       int    // by that registrar

	// Of the registrar.
	phase   agreePhase
	replied Ranks // have answered, or acknowledged

	final    bool
	isolated bool // this rank was out when it was

	committed uint64 // last epoch that all have voted for
	votes     Ranks  // for the next one
	voters    int    // how many these are

	sends   []Sending[F]
	without switchboard
}

// NewAgreement returns the part of one of n ranks.
func NewAgreement[F any](rank, n int) *Agreement[F] {
	return &Agreement[F]{rank: rank, ranks: n, asked: -1}
}

// Fail says that this rank failed. The first failure that was registered holds: it
// need not be this one.
func (a *Agreement[F]) Fail(f F) {
	a.learn(f)
	if a.phase == agreeTelling && !a.without.on(firstWins) {
		a.tell(f, a.after)
	}
	a.step()
}

// Out says that ranks are dead, have left or are silent, and do not come back.
func (a *Agreement[F]) Out(ranks ...int) {
	for _, r := range ranks {
		a.out.Add(r)
	}
	a.step()
}

// Vote says that this rank's part of an epoch is done. Epochs count from 1. With
// commit a rank votes for each.
func (a *Agreement[F]) Vote(epoch uint64) {
	if a.rank == 0 {
		a.vote(0, epoch)
		return
	}
	a.send(0, Notice[F]{Kind: NoticeVote, Committed: epoch})
}

// Take returns what is to be sent, in this order, and forgets it.
func (a *Agreement[F]) Take() []Sending[F] {
	s := a.sends
	a.sends = nil
	return s
}

// Outcome says whether the call of an epoch may return, and with what: exact if
// failed is false. done says that this rank's part of it is finished; with commit the
// rank has voted then.
func (a *Agreement[F]) Outcome(epoch uint64, done, commit bool) (returns, failed bool) {
	if a.final && !(commit && a.committed >= epoch) {
		return true, true
	}
	if !done {
		return false, false
	}
	return !commit || a.committed >= epoch || !a.without.on(voteFirst), false
}

// Failure returns what failed, once that is final, and whether this rank was out by
// then.
func (a *Agreement[F]) Failure() (f F, final, isolated bool) {
	if !a.final {
		return f, false, false
	}
	return a.failure, true, a.isolated
}

// Committed is the last epoch for which all have voted.
func (a *Agreement[F]) Committed() uint64 { return a.committed }

// Waits returns for whom this rank waits, in ranks if it has the room: the registrar
// for those that have not replied, the others for the registrar. stage changes when
// they get further.
func (a *Agreement[F]) Waits(ranks []int) (waits []int, stage int) {
	waits = ranks[:0]
	if !a.known || a.final {
		return waits, -1
	}
	r := a.Registrar()
	stage = r<<3 | int(a.phase)<<1
	if r != a.rank {
		if a.held {
			stage++
		}
		return append(waits, r), stage
	}
	for p := range a.ranks {
		if !a.out.Has(p) && !a.replied.Has(p) {
			waits = append(waits, p)
		}
	}
	return waits, stage
}

// IsOut says whether a rank, which may be this one, is known to be out.
func (a *Agreement[F]) IsOut(rank int) bool { return a.out.Has(rank) }

// Hear takes a notice of another rank. One that could not be from an Agreement of as
// many ranks is not heard.
func (a *Agreement[F]) Hear(from int, m Notice[F]) {
	if from < 0 || from >= a.ranks || from == a.rank || m.Ballot < 0 || m.Ballot >= a.ranks || m.By < 0 || m.By >= a.ranks || m.Kind >= noticeKinds {
		return
	}
	if a.without.on(tellOut) {
		a.out.Merge(m.Out, a.ranks)
	}
	early := m.Ballot < a.promised && a.without.on(promise)
	switch m.Kind {
	case NoticePropose:
		a.propose(from, m)
	case NoticeAsk:
		if early {
			a.refuse(from, m.Ballot)
			break
		}
		a.follow(m)
		answer := Notice[F]{Kind: NoticeAnswer, Ballot: m.Ballot, Committed: a.committed}
		if a.held {
			answer.Holds, answer.Failure, answer.By, answer.Committed = true, a.failure, a.by, a.after
		}
		a.send(from, answer)
	case NoticeAnswer:
		if a.phase != agreeAsking || m.Ballot != a.rank || a.out.Has(from) {
			break
		}
		a.replied.Add(from)
		switch {
		case !m.Holds:
			a.committed = max(a.committed, m.Committed)
		case !a.held || m.By > a.by:
			a.held, a.failure, a.after, a.by = true, m.Failure, m.Committed, m.By
		}
	case NoticeTell:
		if early {
			a.refuse(from, m.Ballot)
			break
		}
		a.follow(m)
		a.hold(m)
		a.send(from, Notice[F]{Kind: NoticeAck, Ballot: m.Ballot})
	case NoticeAck:
		if a.phase == agreeTelling && m.Ballot == a.rank {
			a.replied.Add(from)
		}
	case NoticeFinal:
		if !early {
			a.follow(m)
			a.hold(m)
			a.end()
		}
	case NoticeVote:
		a.vote(from, m.Committed)
	case NoticeCommit:
		if !early {
			a.committed = max(a.committed, m.Committed)
		}
	}
	a.step()
}

// propose takes a failure that another rank would have registered.
func (a *Agreement[F]) propose(from int, m Notice[F]) {
	if a.final { // in later ballots as well
		a.send(from, Notice[F]{Kind: NoticeFinal, Ballot: a.promised, Holds: true, Failure: a.failure, Committed: a.after})
		return
	}
	a.learn(m.Failure)
	if a.phase == agreeTelling && !a.without.on(firstWins) {
		a.tell(m.Failure, a.after)
	}
}

// learn remembers the first failure that this rank heard of.
func (a *Agreement[F]) learn(f F) {
	if !a.known {
		a.known, a.first = true, f
	}
}

// follow takes a registrar's notice: it knows of a failure.
func (a *Agreement[F]) follow(m Notice[F]) {
	a.promised = max(a.promised, m.Ballot)
	a.asked = max(a.asked, m.Ballot)
	a.learn(m.Failure)
}

// hold takes what a registrar tells.
func (a *Agreement[F]) hold(m Notice[F]) {
	if !a.final {
		a.held, a.failure, a.after, a.by = true, m.Failure, m.Committed, m.Ballot
		a.committed = max(a.committed, a.after)
	}
}

// refuse tells a registrar that was passed over; that it is out is in every notice.
func (a *Agreement[F]) refuse(to, ballot int) {
	if !a.without.on(tellRefused) {
		return
	}
	a.send(to, Notice[F]{Kind: NoticeRefuse, Ballot: ballot})
}

func (a *Agreement[F]) end() {
	if !a.final {
		a.final, a.isolated = true, a.out.Has(a.rank)
	}
}

// Registrar is the lowest rank that is not known to be out, or −1.
func (a *Agreement[F]) Registrar() int {
	for r := range a.ranks {
		if !a.out.Has(r) || r == a.rank && !a.without.on(stayOut) {
			return r
		}
	}
	return -1
}

// step does what is due after a change.
func (a *Agreement[F]) step() {
	if a.final || !a.known {
		return
	}
	switch r := a.Registrar(); {
	case r == a.rank:
		a.register()
	case r < 0: // this rank is cut off
		if !a.held {
			a.held, a.failure, a.after, a.by = true, a.first, a.committed, a.rank
		}
		a.end()
	case a.asked < r:
		a.asked = r
		a.send(r, Notice[F]{Kind: NoticePropose, Holds: true, Failure: a.first})
	}
}

// register does what is due of the registrar.
func (a *Agreement[F]) register() {
	if a.phase == agreeIdle {
		a.promised = a.rank
		if a.rank == 0 || !a.without.on(askFirst) { // nobody was before
			a.tell(a.first, a.committed)
		} else {
			a.begin(agreeAsking, Notice[F]{Kind: NoticeAsk, Holds: true, Failure: a.first})
		}
	}
	if a.phase == agreeAsking && a.replies() {
		if !a.held {
			a.failure, a.after = a.first, a.committed
		}
		a.tell(a.failure, a.after)
	}
	if a.phase == agreeTelling && (a.replies() || !a.without.on(awaitHeld)) {
		a.begin(agreeFinal, Notice[F]{Kind: NoticeFinal, Holds: true, Failure: a.failure, Committed: a.after})
		a.end()
	}
}

// tell tells all what failed, and the last epoch that did not.
func (a *Agreement[F]) tell(f F, after uint64) {
	a.held, a.failure, a.after, a.by = true, f, after, a.rank
	a.committed = max(a.committed, after)
	a.begin(agreeTelling, Notice[F]{Kind: NoticeTell, Holds: true, Failure: f, Committed: after})
}

// begin begins a phase of the registrar with a notice for all. Those that are out may
// come back, and should know then.
func (a *Agreement[F]) begin(p agreePhase, m Notice[F]) {
	a.phase = p
	a.replied = nil
	a.replied.Add(a.rank)
	m.Ballot = a.rank
	for r := range a.ranks {
		if r != a.rank {
			a.send(r, m)
		}
	}
}

// replies says whether all have replied that are not out.
func (a *Agreement[F]) replies() bool {
	for r := range a.ranks {
		if !a.out.Has(r) && !a.replied.Has(r) {
			return false
		}
	}
	return true
}

// vote counts a vote. Rank 0 does: without it nothing is committed any more.
func (a *Agreement[F]) vote(from int, epoch uint64) {
	if a.rank != 0 || a.phase != agreeIdle || a.promised != 0 || epoch != a.committed+1 || a.final {
		return
	}
	if a.votes.Add(from) {
		a.voters++
	}
	if a.voters < a.ranks && a.without.on(voteFirst) {
		return
	}
	clear(a.votes)
	a.voters = 0
	a.committed = epoch
	for r := 1; r < a.ranks; r++ {
		a.send(r, Notice[F]{Kind: NoticeCommit, Committed: epoch})
	}
}

func (a *Agreement[F]) send(to int, m Notice[F]) {
	if len(a.out) > 0 {
		m.Out = a.out.clone()
	}
	a.sends = append(a.sends, Sending[F]{to, m})
}
