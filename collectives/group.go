package collectives

import (
	"context"
	"fmt"

	"github.com/weft-go/weft/comm"
)

// GroupCalls are the calls of a [Group], in the order in which they were added.
type GroupCalls struct {
	c   *comm.Communicator
	ops []operation
}

// Group makes the calls that fn adds (with AddAllReduce and so on) and blocks
// until all have ended. All ranks add the same calls in the same order. If fn
// returns an error nothing is called.
func Group(ctx context.Context, c *comm.Communicator, fn func(g *GroupCalls) error) error {
	call := comm.Call{Collective: comm.OpGroup}
	if err := checkCommunicator(c); err != nil {
		return refuse(c, call, err)
	}
	if fn == nil {
		return refuse(c, call, fmt.Errorf("%w: nil function", comm.ErrArgument))
	}
	g := &GroupCalls{c: c}
	if err := fn(g); err != nil {
		return err
	}
	for i := range g.ops {
		if o := &g.ops[i]; o.err != nil {
			return refuse(c, o.call, o.err)
		}
	}
	for i := range g.ops {
		if err := g.ops[i].run(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (g *GroupCalls) add(o operation) {
	if g != nil {
		g.ops = append(g.ops, o)
	}
}

func (g *GroupCalls) comm() *comm.Communicator {
	if g == nil {
		return nil
	}
	return g.c
}
