package harness

import (
	"context"
	"fmt"
	"time"

	"github.com/weft-go/weft/bench/internal/record"
	"github.com/weft-go/weft/bench/peers/mpiloop"
	"github.com/weft-go/weft/comm"
)

// A peer is what the library is compared with.
type peer struct {
	name    string // for people and results
	version string // and all that its results depend on, if that is more
	start   func(p *pass) contender
	lines   []record.Line // of another run, if nothing is started
}

// runs says whether the peer runs here, in turns with ours.
func (p *peer) runs() bool { return p != nil && p.lines == nil }

// newPeer returns the peer that the flags name, or nil. MPI and the GPUs are up by
// now if they are needed.
func newPeer(ctx context.Context, cfg *config, c *comm.Communicator, g *gpu) (*peer, error) {
	switch cfg.peer {
	case "":
		return nil, nil
	case "file":
		lines, err := record.ReadFile(cfg.peerFile)
		if err != nil {
			return nil, fmt.Errorf("-peer: %w", err)
		}
		return &peer{name: "file:" + cfg.peerFile, lines: append([]record.Line{}, lines...)}, nil
	case "nccl", "nccl-symmetric":
		p, err := newNCCL(ctx, g, cfg.peer == "nccl-symmetric")
		if err != nil {
			return nil, fmt.Errorf("-peer %s: %w", cfg.peer, err)
		}
		return p, nil
	}
	if rank, size := mpiloop.World(); rank != c.Rank() || size != c.Size() {
		return nil, fmt.Errorf("-peer %s: MPI says rank %d of %d, and weft %d of %d: start the program with mpirun",
			cfg.peer, rank, size, c.Rank(), c.Size())
	}
	if cfg.peer == "empi" {
		start, err := newEmpi()
		return &peer{name: "empi (" + mpiloop.Version() + ")", start: start}, err
	}
	return &peer{name: mpiloop.Version(), start: newMPI}, nil
}

// mpiContender calls MPI in a loop in C.
type mpiContender struct {
	loop mpiloop.Loop
	pool pool
}

// newMPI returns nil if MPI has no such type or operator. In place MPI puts the
// result of a ReduceScatter where the whole source begins.
func newMPI(p *pass) contender {
	if p.coll.kind == reduceScatter {
		p.dstAt = 0
	}
	elem := int64(p.typ.Size())
	m := &mpiContender{mpiloop.Loop{
		Coll: int(p.coll.kind), Type: typeName(p.typ), Op: p.op.String(), Root: p.root, InPlace: p.inPlace,
		Count: int(p.count), Elem: int(elem), Slots: p.slots, SrcStride: p.srcStride * elem, DstStride: p.dstStride * elem,
	}, p.pool}
	if !m.loop.Supports() {
		return nil
	}
	return m
}

func (m *mpiContender) run(_ context.Context, first int64, calls int) (time.Duration, error) {
	return m.loop.Run(m.pool.src, m.pool.dst, first, calls)
}

// find returns the line of the other run for a line of ours: the last with the
// same key, one with the same memory, root and form first.
func (p *peer) find(l *record.Line) *record.Line {
	var found *record.Line
	best := -1
	for i := range p.lines {
		o := &p.lines[i]
		if o.Coll != l.Coll || o.Ranks != l.Ranks || o.Bytes != l.Bytes || o.Type != l.Type ||
			o.Op != l.Op || o.InPlace != l.InPlace {
			continue
		}
		score := 0
		if o.Form == l.Form {
			score++
		}
		if o.Memory == l.Memory {
			score += 2
		}
		if o.Root == l.Root {
			score += 4
		}
		if o.Warm == l.Warm {
			score += 8
		}
		if score >= best {
			found, best = o, score
		}
	}
	return found
}
