package progress

import (
	"encoding/binary"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
)

// A port is what it takes to start operations and wait for their end. It belongs
// to one goroutine at a time; ports are independent of each other.
type port struct {
	t     transport.Transport
	rank  int
	phase transport.Completion
	wait  waiter
	stage []byte // where short messages, and the ends of long ones, are put together
}

// stageBytes is the length up to which a message is put together in one piece.
const stageBytes = 512

// put sends a message into a cell: the first prefix bytes of the stage, a whole
// number of units, then data. It has read both when it returns.
func (p *port) put(peer int, at transport.Handle, counter uint64, prefix int, data []byte, epoch uint64) error {
	// Everything that does not fill units of its own goes through the stage, the
	// end of data behind the prefix: the transport may read both until the phase
	// ends.
	whole, staged := 0, prefix
	if prefix+len(data) > stageBytes {
		whole = len(data) / transport.Granule * transport.Granule
	} else {
		staged += copy(p.stage[prefix:], data)
	}
	if err := p.t.PutCounted(p.phase, at, padded(p.stage, staged), counter); err != nil {
		return err
	}
	if whole > 0 {
		body := at.Add(uint64(prefix))
		if err := p.t.PutCounted(p.phase, body, data[:whole], counter); err != nil {
			return err
		}
		end := p.stage[prefix:]
		if rest := copy(end, data[whole:]); rest > 0 {
			if err := p.t.PutCounted(p.phase, body.Add(uint64(whole)), padded(end, rest), counter); err != nil {
				return err
			}
		}
	}
	return p.finish(transport.OpPutCounted, peer, at, epoch)
}

// raise raises a peer's credit word to value.
func (p *port) raise(peer int, at transport.Handle, value uint64) error {
	// A red works on whole units; the second word stays zero for ever.
	clear(p.stage[:transport.Granule])
	binary.NativeEndian.PutUint64(p.stage, value) // as atomics of this machine read it
	if err := p.t.Red(p.phase, at, p.stage[:transport.Granule], transport.RedMax, kernels.TypeUint64); err != nil {
		return err
	}
	return p.finish(transport.OpRed, peer, at, value)
}

// finish ends the current phase and reads its report. After an error the phase
// may still be under way: the port is of no more use.
func (p *port) finish(op transport.OpKind, peer int, at transport.Handle, epoch uint64) error {
	if err := p.phase.Submit(); err != nil {
		return err
	}
	if err := p.phase.Arrive(); err != nil {
		return err
	}
	if err := p.wait.done(p.phase, peer); err != nil {
		return err
	}
	report, err := p.phase.Report()
	if err != nil {
		return err
	}
	if !report.Clean() {
		return &transport.FabricError{Op: op, Rank: p.rank, Peer: peer, Endpoint: at.ID, Offset: at.Offset, Epoch: epoch, Attempts: 1, Status: report}
	}
	return nil
}

// padded returns the first n bytes of stage, up to a whole unit, with zeros
// behind them.
func padded(stage []byte, n int) []byte {
	end := roundUp(n)
	clear(stage[n:end])
	return stage[:end]
}

func roundUp(n int) int { return (n + transport.Granule - 1) / transport.Granule * transport.Granule }
