package harness

import (
	"github.com/weft-go/weft/collectives"
	"github.com/weft-go/weft/comm"
)

// calls are what the library calls the collectives.
var calls = map[kind]comm.Collective{
	allReduce: comm.OpAllReduce, reduce: comm.OpReduce, broadcast: comm.OpBroadcast,
	reduceScatter: comm.OpReduceScatterBlock, allGather: comm.OpAllGather, allToAll: comm.OpAllToAll,
	gather: comm.OpGather, scatter: comm.OpScatter, scan: comm.OpScan, barrier: comm.OpBarrier,
}

// call describes what the library is asked to do.
func (p *pass) call() comm.Call {
	call := comm.Call{Collective: calls[p.coll.kind]}
	if p.coll.kind == barrier {
		return call
	}
	call.Count, call.Type, call.Op, call.Root = int(p.count), p.typ, p.op, max(p.root, 0)
	if p.coll.kind == allToAll {
		call.Count *= p.ranks // the library counts all blocks
	}
	return call
}

// algorithm names what carries a collective out.
func algorithm(c *comm.Communicator, call comm.Call, symmetric bool) string {
	find := collectives.Algorithm
	if symmetric {
		find = collectives.SymmetricAlgorithm
	}
	name, err := find(c, call)
	if err != nil { // then the collective itself has failed, and says why
		return "?"
	}
	return name
}

// transportName is how this rank reaches the others; several ways are joined.
func transportName(c *comm.Communicator) string {
	name := ""
	for r := range c.Size() {
		route := c.Route(r).Transport
		switch {
		case r == c.Rank() || route == name:
		case name == "":
			name = route
		default:
			name = name + "+" + route
		}
	}
	if name == "" {
		return "self"
	}
	return name
}
