package comm

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-go/weft/comm/bootstrap"
	"github.com/weft-go/weft/transport/progress"
)

// A Communicator is a group of ranks that call collectives together. Its
// methods may be called from any goroutine, but one collective runs at a time.
type Communicator struct {
	world   *world
	id      uint64
	rank    int
	members []int // world rank of each rank
	timeout time.Duration
	madeBy  time.Time // when making it ends by itself; zero once it is made
	logger  *slog.Logger

	engine    *progress.Engine
	stop      *progress.Stop
	agreement agreement
	commits   bool // calls end with a vote

	started startedCalls
	// messages are those between two ranks; nil while the communicator is made.
	messages *messages
	state    atomic.Uint64   // callState
	ctx      context.Context // of the running call
	log      callLog
	plain    plainCalls
	history  uint32 // of the signatures of all calls up to the running one
	xchg     exchanges
	asks     questions
	detours  detours
	asked    uint64 // last call about which all ranks were asked
	// notices is what a call looks at as it begins and ends, all in one word: most often
	// there is nothing.
	notices atomic.Uint32
	leave   leaveState

	later     atomic.Pointer[enqueued] // see SetLater
	extension atomic.Pointer[any]      // see Extend

	failed atomic.Bool // the last call failed
	told   atomic.Bool // a call has returned why the communicator does not go on
	seen   atomic.Bool // AsyncErr has
	// disagreement is the first that ranks found, even if stop was set before.
	disagreement atomic.Pointer[AbortError]
	silent       bool // a rank did not answer when this one left
	closing      sync.Once
	mu           sync.Mutex
	buffers      map[freer]struct{} // not yet freed
	allocs       uint32             // calls of Alloc that gave memory
	mapped       atomic.Bool        // some of them, if that memory is mapped by all
	places       atomic.Pointer[[]placed]
	device       atomic.Pointer[Device] // nil until it is first needed
}

const (
	// noticeLeavers: some rank has closed the communicator, or waits to, or the ranks are
	// about to agree on what ends it.
	noticeLeavers = 1 << iota
	// noticeLater: calls may be enqueued on a device, and fail there.
	noticeLater
)

func (c *Communicator) hasLeavers() bool { return c.notices.Load()&noticeLeavers != 0 }

// freer is an allocation that Close frees.
type freer interface{ free() error }

// Rank is this rank's number, from 0. Of a nil communicator it is -1.
func (c *Communicator) Rank() int {
	if c == nil {
		return -1
	}
	return c.rank
}

// Size is the number of ranks. Of a nil communicator it is 0.
func (c *Communicator) Size() int {
	if c == nil {
		return 0
	}
	return len(c.members)
}

// Nodes returns the ranks of each node, in the order of the lowest rank on it.
func (c *Communicator) Nodes() [][]int {
	if c == nil {
		return nil
	}
	index := map[string]int{}
	var nodes [][]int
	for r := range c.members {
		name := c.peer(r).Node
		i, ok := index[name]
		if !ok {
			i = len(nodes)
			index[name] = i
			nodes = append(nodes, nil)
		}
		nodes[i] = append(nodes[i], r)
	}
	return nodes
}

// node returns the ranks on this rank's node.
func (c *Communicator) node() []int {
	for _, ranks := range c.Nodes() {
		if slices.Contains(ranks, c.rank) {
			return ranks
		}
	}
	return nil
}

// LocalRank is this rank's number among the ranks of its node, in rank order.
func (c *Communicator) LocalRank() int { return slices.Index(c.node(), c.Rank()) }

// LocalSize is the number of ranks on this rank's node.
func (c *Communicator) LocalSize() int { return len(c.node()) }

// Host is the host name of a rank's node, for people; "" if there is no such rank.
func (c *Communicator) Host(rank int) string {
	if rank < 0 || rank >= c.Size() {
		return ""
	}
	return c.peer(rank).Host
}

// Source names what told this rank its number and the size of the job, for people.
func (c *Communicator) Source() string {
	if c == nil {
		return ""
	}
	return c.world.ch.Source()
}

// Route says how this rank reaches another.
func (c *Communicator) Route(rank int) Route {
	if rank < 0 || rank >= c.Size() {
		return Route{Reason: "no such rank"}
	}
	return c.world.route(c.members[rank])
}

// Timeout is the deadline of calls whose context has none.
func (c *Communicator) Timeout() time.Duration {
	if c == nil {
		return 0
	}
	return c.timeout
}

// Algorithm is what [WithAlgorithm] or WEFT_ALGO gave.
func (c *Communicator) Algorithm() string {
	if c == nil {
		return ""
	}
	return c.world.settings.algorithm
}

// Lanes says how large the messages between ranks are and how many fit, and
// whether there is multicast memory.
func (c *Communicator) Lanes() (layout progress.Layout, multicast bool) {
	if c == nil {
		return progress.Layout{}, false
	}
	limits := c.world.transport.Limits()
	return c.layout().On(limits), limits.Multicast
}

// layout is that of the communicator's memory. It is the same on all ranks.
func (c *Communicator) layout() progress.Layout {
	l := progress.DefaultLayout(c.Size())
	if p := c.world.waitPolicy(); p.Oversubscribed && !p.InProcess {
		l = l.Crowded()
	}
	return l
}

// Shared returns what make made for key when it was first asked for on any
// communicator of this rank's job. It is for the layers above to keep what all
// communicators can use; what make makes must be safe for concurrent use.
func (c *Communicator) Shared(key any, make func() any) any {
	w := c.world
	w.mu.Lock()
	defer w.mu.Unlock()
	v, ok := w.shared[key]
	if !ok {
		v = make()
		w.shared[key] = v
	}
	return v
}

// WaitPolicy says how this rank waits for its peers.
func (c *Communicator) WaitPolicy() progress.WaitPolicy {
	if c == nil {
		return progress.WaitPolicy{}
	}
	return c.world.waitPolicy()
}

func (c *Communicator) peer(rank int) bootstrap.Peer { return c.world.ch.Peer(c.members[rank]) }

// send sends a control message to a rank of this communicator.
func (c *Communicator) send(rank int, m bootstrap.Message) error {
	m.Comm = c.id
	return c.world.ch.Send(c.members[rank], m)
}
