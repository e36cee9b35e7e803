package collectives

import (
	"context"
	"fmt"
	"slices"

	"github.com/weft-go/weft/comm"
)

// A Persistent is a call that is set up once and made many times, on the same
// slices, as MPI's persistent collectives. Setting it up does not communicate.
// It must not be used by two goroutines at once.
type Persistent struct{ op operation }

func newPersistent(o operation) (*Persistent, error) {
	if o.err != nil {
		return nil, refuse(o.c, o.call, o.err)
	}
	o.dstCounts, o.srcCounts = slices.Clone(o.dstCounts), slices.Clone(o.srcCounts)
	return &Persistent{op: o}, nil
}

// Run makes the call and blocks until it has ended. It allocates nothing, unless it
// is a group with sends and receives.
func (p *Persistent) Run(ctx context.Context) error {
	if p == nil || p.op.c == nil {
		return errNotSetUp
	}
	return p.op.run(ctx)
}

// Start starts the call, see [Request].
func (p *Persistent) Start(ctx context.Context) *Request {
	if p == nil || p.op.c == nil {
		return start(ctx, operation{err: errNotSetUp})
	}
	return start(ctx, p.op)
}

var errNotSetUp = fmt.Errorf("weft: %w: nil Persistent", comm.ErrArgument)
