package harness

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/weft-go/weft/bench/peers/nccl"
	"github.com/weft-go/weft/collectives"
)

// newNCCL makes a communicator of NCCL between the same ranks. windows says that the buffers
// will be symmetric windows.
func newNCCL(ctx context.Context, g *gpu, windows bool) (*peer, error) {
	library, err := nccl.Load()
	if err != nil {
		return nil, err
	}
	var id nccl.UniqueID
	if g.c.Rank() == 0 {
		if id, err = library.UniqueID(); err != nil {
			return nil, err
		}
	}
	// Whoever has no NCCL does not get here, and the others don't wait for it below.
	if err := collectives.Broadcast(ctx, g.c, id[:], 0); err != nil {
		return nil, err
	}
	if err := collectives.Barrier(ctx, g.c); err != nil {
		return nil, err
	}
	type result struct {
		comm *nccl.Comm
		err  error
	}
	made := make(chan result, 1)
	go func() {
		c, err := library.Init(g.context, g.c.Size(), g.c.Rank(), id)
		made <- result{c, err}
	}()
	name := "NCCL " + library.Version()
	if windows {
		name += " symmetric"
	}
	// If another rank fails in there, NCCL may never return; this process ends then.
	deadline := time.After(g.timeout)
	for {
		select {
		case r := <-made:
			g.nccl = r.comm
			return &peer{name: name, version: ncclVersion(library)}, r.err
		case <-deadline:
			return nil, fmt.Errorf("ncclCommInitRank has not returned after %v", g.timeout)
		case <-time.After(10 * time.Millisecond):
			if err := g.c.AsyncErr(); err != nil {
				return nil, err
			}
		}
	}
}

// ncclVersion is what results depend on: the version, and what the environment tells NCCL.
func ncclVersion(l *nccl.Library) string {
	return strings.Join(append([]string{l.Version()}, nccl.Settings()...), " ")
}
