package comm

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/weft-go/weft/comm/bootstrap"
	"github.com/weft-go/weft/transport/progress"
)

// Undefined is the colour of a rank that takes part in Split but in none of the
// new communicators.
const Undefined = -1

// Split divides the communicator: the ranks that give the same color ≥ 0 form a
// new one, ordered by key and then by their rank here. A rank that gives
// [Undefined] gets nil and no error. All ranks call it; it blocks until all have.
// Each new communicator is closed on its own, and fails on its own. If Split
// itself fails, c ends as well. A communicator takes up to about 3.2 MiB of memory and a
// descriptor on each rank; on a fabric 64 MiB more, to send again what failed.
func (c *Communicator) Split(ctx context.Context, color, key int) (*Communicator, error) {
	return c.split(ctx, Call{Collective: OpSplit}, color, key)
}

// Dup returns a communicator of the same ranks in the same order, in which calls
// run, and fail, apart from those of c. All ranks call it; it blocks until all have.
func (c *Communicator) Dup(ctx context.Context) (*Communicator, error) {
	return c.split(ctx, Call{Collective: OpDup}, 0, 0)
}

func (c *Communicator) split(ctx context.Context, call Call, color, key int) (*Communicator, error) {
	if c != nil && color < Undefined {
		return nil, c.refuse(call, fmt.Errorf("%w: color %d", ErrArgument, color))
	}
	if _, err := c.Begin(ctx, call); err != nil {
		return nil, err
	}
	seq := callState(c.state.Load()).seq()
	data := binary.LittleEndian.AppendUint64(nil, uint64(color))
	data = binary.LittleEndian.AppendUint64(data, uint64(key))
	all, err := c.exchange(ctx, bootstrap.Message{Data: data})
	var child *Communicator
	if err == nil && color != Undefined {
		child, err = c.makeChild(ctx, call, seq, color, all)
	}
	if err = c.End(err); err != nil {
		if child != nil {
			err = errors.Join(err, child.Close())
		}
		return nil, err
	}
	return child, nil
}

// makeChild makes the communicator of the ranks that gave color, which all tell.
func (c *Communicator) makeChild(ctx context.Context, call Call, seq uint64, color int, all []bootstrap.Message) (*Communicator, error) {
	type member struct{ rank, key int }
	var group []member
	for r, m := range all {
		if len(m.Data) == 16 && int(binary.LittleEndian.Uint64(m.Data)) == color {
			group = append(group, member{r, int(binary.LittleEndian.Uint64(m.Data[8:]))})
		}
	}
	slices.SortStableFunc(group, func(a, b member) int { return cmp.Compare(a.key, b.key) })
	members := make([]int, len(group))
	for i, m := range group {
		members[i] = c.members[m.rank]
	}
	child, err := c.world.newCommunicator(ctx, c, childID(c.id, seq, color), members, c.timeout)
	if err == nil {
		return child, nil
	}
	if stopped := c.stop.Err(); stopped != nil {
		return nil, stopped
	}
	// The ranks may not agree on what came of it, so this communicator ends as well.
	here := &AbortError{Origin: c.rank, Reason: ReasonFailed, Call: call.numbered(seq), Seq: seq, Detail: err.Error(), cause: err}
	var abort *AbortError
	if errors.As(err, &abort) {
		// The child does not come to be: its ranks mean nothing to the caller.
		here.Origin, here.Reason, here.Detail, here.cause = group[abort.Origin].rank, abort.Reason, abort.Detail, abort.cause
		for _, r := range abort.Ranks {
			here.Ranks = append(here.Ranks, group[r].rank)
		}
	}
	return nil, here
}

// childID is the same on all ranks without an exchange.
func childID(parent, seq uint64, color int) uint64 {
	h := fnv.New64a()
	var b [24]byte
	binary.LittleEndian.PutUint64(b[:], parent)
	binary.LittleEndian.PutUint64(b[8:], seq)
	binary.LittleEndian.PutUint64(b[16:], uint64(color))
	h.Write(b[:])
	return h.Sum64()
}

// Every communicator has its lanes from the start, so that whether memory is
// there is known when it is made.
func (c *Communicator) connect(ctx context.Context) error {
	var err error
	var detour func(context.Context, int, []byte) error
	var ways progress.Ways
	reroute := c.world.settings.reroute
	if reroute.has(ByChannel) {
		detour = c.detour
	}
	if reroute.has(ByAlias) {
		ways |= progress.ByAlias
	}
	if reroute.has(ByPointer) {
		ways |= progress.ByPointer
	}
	c.engine, err = progress.New(ctx, progress.Config{
		Transport: c.world.transport,
		Rank:      c.rank,
		Layout:    c.layout(),
		Policy:    c.world.waitPolicy(),
		Stop:      c.stop,
		Exchange:  c.exchangeExports,
		Detour:    detour,
		Ways:      ways,
		OnStall:   c.onStall,
		// The others are told first: they would find that what they import is gone.
		Failed: func(err error) { _ = c.notMade(ctx, err) },
	})
	if err == nil {
		c.detours.deliverTo(c.engine)
	}
	if err == nil {
		c.messages, err = newMessages(c, c.engine)
	}
	return err
}
