package comm

import (
	"fmt"
	"runtime"

	"github.com/weft-go/weft/comm/bootstrap"
	"github.com/weft-go/weft/transport/progress"
)

// A Route is how one rank reaches another.
type Route struct {
	Transport string // name of the transport; "" if there is none
	Reason    string // why that one, for people
}

// route chooses the transport to a world rank.
func (w *world) route(rank int) Route {
	me, peer := w.ch.Peer(w.ch.Rank()), w.ch.Peer(rank)
	switch {
	case peer.Rank == me.Rank:
		return Route{"self", "own memory"}
	case w.isFabric() && (w.inProcess || peer.Node == me.Node):
		return Route{w.settings.transport, "the software fabric, as asked for"}
	case w.inProcess:
		return Route{"pointer", "same process: memory on the Go heap"}
	case peer.Node == me.Node:
		return Route{"pointer", "same node: anonymous shared memory"}
	}
	return Route{"", fmt.Sprintf("on another node (host %s); there is no transport between nodes yet", peer.Host)}
}

func (w *world) isFabric() bool {
	_, ok := fabricModes[w.settings.transport]
	return ok
}

// checkReachable returns an error that names the first rank without a route.
func (w *world) checkReachable() error {
	for r := range w.ch.Size() {
		if route := w.route(r); route.Transport == "" {
			e := &UnreachableError{Rank: w.ch.Rank(), Peer: r, Why: route.Reason}
			for p := range w.ch.Size() {
				e.Ranks = append(e.Ranks, w.ch.Peer(p))
			}
			return e
		}
	}
	return nil
}

// waitPolicy says how the ranks of this node wait, from what all know of all. It stays
// what it was when it was first asked for: layouts follow from it.
func (w *world) waitPolicy() progress.WaitPolicy {
	w.waitOnce.Do(func() { w.waiting = w.findWaitPolicy() })
	return w.waiting
}

func (w *world) findWaitPolicy() progress.WaitPolicy {
	if w.inProcess {
		return progress.WaitPolicy{InProcess: true, Oversubscribed: w.ch.Size() > runtime.GOMAXPROCS(0)}
	}
	me := w.ch.Peer(w.ch.Rank())
	var masks [][]int
	for r := range w.ch.Size() {
		if p := w.ch.Peer(r); p.Node == me.Node {
			masks = append(masks, p.CPUs)
		}
	}
	return progress.WaitPolicy{Oversubscribed: !eachHasCPU(masks)}
}

// eachHasCPU says whether every rank can have a processor of its own within
// its affinity mask: a maximum matching of ranks and processors. An unknown
// (empty) mask is not a reason to think otherwise.
func eachHasCPU(masks [][]int) bool {
	owner := map[int]int{} // processor → rank
	var assign func(rank int, tried map[int]bool) bool
	assign = func(rank int, tried map[int]bool) bool {
		for _, cpu := range masks[rank] {
			if tried[cpu] {
				continue
			}
			tried[cpu] = true
			other, taken := owner[cpu]
			if !taken || assign(other, tried) {
				owner[cpu] = rank
				return true
			}
		}
		return false
	}
	for r, mask := range masks {
		if len(mask) > 0 && !assign(r, map[int]bool{}) {
			return false
		}
	}
	return true
}

// Describe returns what every rank said of itself when the job came together.
func (c *Communicator) Describe(rank int) bootstrap.Peer {
	if rank < 0 || rank >= c.Size() {
		return bootstrap.Peer{Rank: -1}
	}
	p := c.peer(rank)
	p.Rank = rank
	return p
}
