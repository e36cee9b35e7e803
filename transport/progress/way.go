package progress

import (
	"context"

	"github.com/weft-go/weft/transport"
)

// This file chooses how a message, a credit, a posting or a pull gets to a peer: by the
// id under which the peer's endpoint was imported first; if that does not work by an
// alias, which is a second id for the same endpoint; by pointer, if the peer's memory can
// be reached so; or by detour. To the lane the first three are all the same: attempts.

// Ways are those that an engine may go where the first id of a peer does not work,
// before [Config].Detour.
type Ways uint8

const (
	// ByAlias: by a second id for the peer's endpoint.
	ByAlias Ways = 1 << iota
	// ByPointer: through a pointer to the peer's memory, on a transport that is a
	// [transport.Reacher].
	ByPointer
)

// A way is one of those, in the order in which they are tried.
type way uint8

const (
	direct way = iota
	byAlias
	byPointer
	byChannel
	noWay

	linkWays = int(byPointer) // those before may fail
)

// A road has what the ways to a peer are made of. For this rank itself it is that of
// multicast memory.
type road struct {
	ids    [linkWays]transport.EndpointID
	access transport.Access
	open   waySet // those that there are
}

type waySet uint8

func (s waySet) has(w way) bool       { return s>>w&1 != 0 }
func (s waySet) with(w way) waySet    { return s | 1<<w }
func (s waySet) less(o waySet) waySet { return s &^ o }

// at is a place at the peer by a way.
func (r *road) at(w way, offset uint64) transport.Handle {
	if w != byAlias {
		w = direct
	}
	return transport.Handle{ID: r.ids[w], Offset: offset}
}

// A route is how a message or a word goes to a peer.
type route struct {
	way   way
	tried waySet // in vain, before
}

// openRoads finds the ways to the peers.
func (e *Engine) openRoads(peers, aliases []transport.Endpoint) {
	e.roads = make([]road, len(peers))
	for i := range e.roads {
		r := &e.roads[i]
		r.open = r.open.with(direct)
		if e.cfg.Detour != nil && e.t.Limits().LateWrites {
			r.open = r.open.with(byChannel)
		}
		if peers[i] == nil {
			continue
		}
		r.ids[direct] = peers[i].ID()
		if a := aliases[i]; a != nil {
			r.ids[byAlias] = a.ID()
			r.open = r.open.with(byAlias)
		}
		if a := e.reach(peers[i].ID(), 0); a != nil {
			r.access = a
			r.open = r.open.with(byPointer)
		}
	}
}

// reach returns the access by pointer to an endpoint, if it may be used and there is one.
func (e *Engine) reach(id transport.EndpointID, member int) transport.Access {
	if t, ok := e.t.(transport.Reacher); ok && e.cfg.Ways&ByPointer != 0 && e.t.Limits().LateWrites {
		if a, err := t.Reach(id, member); err == nil {
			return a
		}
	}
	return nil
}

// importAlias imports a peer's endpoint once more. Without it there is a way less.
func importAlias(ctx context.Context, t transport.Transport, x transport.Exported) transport.Endpoint {
	alias, err := t.Import(x)
	if err != nil {
		return nil
	}
	if alias.Ready(ctx) != nil {
		_ = alias.Destroy()
		return nil
	}
	return alias
}

// choose returns the first way to a peer that is neither tried nor to be avoided. If all
// are, it is one to be avoided.
func (p *port) choose(peer int, tried waySet) way {
	open, links := p.roads[peer].open.less(tried), &p.links[peer]
	avoided := noWay
	for w := direct; w < noWay; w++ {
		switch {
		case !open.has(w):
		case int(w) >= linkWays || links[w].skip == 0:
			return w
		case avoided == noWay:
			avoided = w
		}
	}
	return avoided
}

// begins says that a message or a word takes a way: those before it that are to be
// avoided are so for one less.
func (p *port) begins(peer int, on way) {
	for w := range p.links[peer] {
		if l := &p.links[peer][w]; way(w) < on && l.skip > 0 {
			l.skip--
		}
	}
}

// another has what could not be tried any more on its way take another one. If there is
// none, or that is not why, it returns why.
func (p *port) another(peer int, r *route, why error) error {
	if !isFabric(why) {
		return why
	}
	tried := r.tried.with(r.way)
	next := p.choose(peer, tried)
	if next == noWay {
		return why
	}
	p.links[peer][r.way].bad()
	r.way, r.tried = next, tried
	return nil
}

// works says that what was brought to a peer by a way got there.
func (p *port) works(peer int, by way) {
	switch by {
	case byAlias:
		p.stats[peer].Reroutes.Alias++
	case byPointer:
		p.stats[peer].Reroutes.Pointer++
		return
	}
	if l := &p.links[peer][by]; l.level > 0 && l.skip == 0 {
		*l = link{}
	}
}

// attempts bounds the tries of a phase by a way.
func (p *port) attempts(peer int, by way) int {
	if p.links[peer][by].level > 0 {
		return min(p.retry.MaxAttempts, probeAttempts)
	}
	return p.retry.MaxAttempts
}

// A link is what a port knows of a way to a peer that may fail. When it did, some
// messages do without it, more each time, and then one tries again for a little.
type link struct {
	level int // failures in a row
	skip  int // messages until the next try
}

const (
	probeAttempts = 3 // of a try on a link that did not work
	maxSkip       = 1 << 8
)

// bad has a link that did not work once more be avoided for a while.
func (l *link) bad() {
	l.level = min(l.level+1, 9)
	l.skip = min(1<<(l.level-1), maxSkip)
}
