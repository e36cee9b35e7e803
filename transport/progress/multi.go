package progress

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/progress/lane"
)

// multi is the communicator's multicast memory: a replica on each rank, made when a
// call first needs it. A replica begins with what its rank contributes, which that
// rank alone writes, by pointer, and all pull. For each rank there follows a board: a
// row of cells that this rank puts to in all replicas. See [lane.Board].
type multi struct {
	mem transport.Memory
	ep  transport.Endpoint

	contributed uint64 // bytes
	cellBytes   uint64
	cells       int // of each board
}

// group is what an engine has and knows of multicast memory.
type group struct {
	multi
	open bool // this call uses it
	most int  // cells of a board, at most

	board    *lane.Board // this rank's
	posts    [lane.Slots]posting
	bulletin lane.Bulletin // that messages take along
	told     []lane.Reader // by rank, this one's own too: what messages said
	flights  [maxFlights]flight
	started  uint64 // phases so far

	replaced uint64  // cells, of memory that is gone
	unmade   []multi // what could not be made: it goes with the engine

	reached []transport.Access // the replicas by pointer, in the order of ranks; nil if not all are
	loaded  [][]byte           // what was read there

	// Of what can't go by multicast memory; see around.go.
	boxes   []boxes    // by rank
	answers []answer   // by rank
	asked   uint64     // how often
	around  []byte     // what goes another way
	srcs    [][]byte   // of a reduction
	serving sync.Mutex // held by Deliver while it reads contributions, and while memory is changed

	answering sync.WaitGroup
}

func (g *group) init(ranks int) {
	g.most = lane.MaxBoardCells
	g.board = lane.NewBoard(lane.Slots, 0)
	g.bulletin = lane.FirstBulletin()
	g.told = slices.Repeat([]lane.Reader{lane.NewReader()}, ranks)
	g.boxes, g.answers = make([]boxes, ranks), make([]answer, ranks)
}

const (
	// boardBudget bounds what the boards take in a replica, as far as minBoard allows.
	boardBudget = 8<<20 + 24<<20*(math.MaxInt>>62) // less where addresses have 32 bits
	minBoard    = 8

	// lowShare is the part of a board's cells of which one must never have been used, or
	// it is low: what is left must do for the call.
	lowShare = 4
)

// boardCells is how many cells of a size there are for each rank.
func (e *Engine) boardCells(cellBytes uint64) (cells, reserve int) {
	if !e.faulty {
		return lane.Slots, 0
	}
	room := boardBudget / (uint64(e.layout.Ranks) * cellBytes)
	cells = max(minBoard, int(min(room, uint64(e.group.most))))
	return cells, cells / lowShare
}

// OpenMulti sees to it that there is multicast memory for this call: at least the
// given bytes for what each rank contributes, and cells of at least cellBytes for what
// it posts. All ranks call it at the same place of the same call with the same sizes.
// It is an all-gather when the memory must grow, or when a rank said that few of its
// cells are left: then what it held before is lost. In between it does nothing. After
// an error the engine is good for nothing but Close. What was made by then is not
// taken away before: others, which may not know yet, may reach for it.
func (e *Engine) OpenMulti(ctx context.Context, bytes, cellBytes uint64) error {
	g := &e.group
	if err := e.Settle(); err != nil {
		return err
	}
	g.open = true
	low := g.board.Low() || slices.ContainsFunc(g.told, func(r lane.Reader) bool { return r.Low() })
	if g.ep != nil && bytes <= g.contributed && cellBytes <= g.cellBytes && !low {
		return nil
	}
	limits := e.t.Limits()
	if !limits.Multicast {
		return fmt.Errorf("progress: multicast memory: %w", transport.ErrUnsupported)
	}
	next := multi{
		contributed: roundTo(max(bytes, g.contributed), transport.CounterAlign),
		cellBytes:   roundTo(max(cellBytes, g.cellBytes, transport.CounterAlign), transport.CounterAlign),
	}
	cells, reserve := e.boardCells(next.cellBytes)
	next.cells = cells
	size := roundTo(next.offset(e.layout.Ranks, 0), limits.BindAlign)
	var err error
	if next.mem, err = e.t.Alloc(size); err != nil {
		return err
	}
	next.ep, err = e.t.JoinMulticast(ctx, transport.EndpointConfig{Size: size}, e.cfg.Rank, e.layout.Ranks, next.mem, e.cfg.Exchange)
	if err == nil {
		err = next.ep.Ready(ctx)
	}
	if err != nil {
		g.unmade = append(g.unmade, next)
		return err
	}
	old := g.multi
	g.serving.Lock()
	g.multi = next
	g.serving.Unlock()
	e.reachMulti()
	g.replaced += uint64(g.board.Replaced())
	g.board.Renew(cells, reserve)
	for i := range g.told {
		g.told[i].Told(lane.FirstBulletin())
	}
	g.bulletin = lane.FirstBulletin()
	// All ranks have joined the new one, so none is in a call that uses the old one.
	return old.close()
}

func roundTo(n, unit uint64) uint64 { return (n + unit - 1) / unit * unit }

// offset is where a cell of a rank's board lies.
func (m *multi) offset(rank, cell int) uint64 {
	return m.contributed + uint64(rank*m.cells+cell)*m.cellBytes
}

func (m *multi) close() error {
	var errs []error
	if m.ep != nil {
		errs = append(errs, m.ep.Destroy())
	}
	if m.mem != nil {
		errs = append(errs, m.mem.Free())
	}
	return errors.Join(errs...)
}

// Multi is what this rank contributes, at the beginning of its replica. It may change
// when all that pull it have sent a message since.
func (e *Engine) Multi() []byte {
	g := &e.group
	if g.mem == nil {
		return nil
	}
	return g.mem.Bytes()[:g.contributed:g.contributed]
}
