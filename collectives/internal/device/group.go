// Package device enqueues collectives as kernels on the GPUs of a communicator's ranks.
//
// A [Group] is one rank's end. It knows nothing of how the ranks found each other: it is
// given their segments, as this rank's device maps them, and the description of each
// call, which has been checked.
package device

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/cuda"
	"github.com/weft-go/weft/kernels"
	layout "github.com/weft-go/weft/kernels/cuda"
)

// Config is what a Group is made of.
type Config struct {
	Context  *cuda.Context
	Rank     int
	Lanes    int           // the same on all ranks, see [layout.Lanes]
	Segments []cuda.Ptr    // of all ranks, as the device maps them; layout.SegmentBytes each, zeroed
	Timeout  time.Duration // of a wait in a kernel
	// Serial launches kernels when those in front of them have ended, and OneDomain in the
	// domain of memory synchronisation of all others: to measure what it costs.
	Serial, OneDomain bool
}

// Group is one rank's end of a communicator on devices. Its methods may be called from
// any goroutine.
type Group struct {
	context *cuda.Context
	ranks   int
	lanes   int
	code    *code

	pageMu sync.RWMutex // so that page is not freed while it is used
	page   *layout.Page
	pinned *cuda.HostMemory // where page is

	mu       sync.Mutex
	args     layout.Args
	blocks   layout.Blocks
	launches map[string]*cuda.Launch // by the name of the kernel
	early    bool                    // launches are programmatic
	remote   bool                    // launches go to the remote domain of memory synchronisation
	// Calls run one after another, on whatever streams they are: done is recorded behind the
	// last that is no part of a graph, on the stream last.
	done   cuda.Event
	last   uintptr
	used   bool
	closed bool
}

// Memory is where a call's elements are.
type Memory struct {
	Ptr    cuda.Ptr
	Buffer int    // number of the registered buffer that it is in, from 1; 0: in none
	Offset uint64 // in that
}

// Call is what a kernel is to do.
type Call struct {
	Collective comm.Collective
	Count      int // elements of a block
	Type       kernels.Type
	ElemBytes  int
	Op         kernels.Op
	Root       int
	Dst, Src   Memory
	InPlace    bool // Dst and Src overlap
	// Blocks are for AllToAllV and messages. To and From are the peers of a message, or −1.
	Blocks   *layout.Blocks
	To, From int
	Hash     uint32 // of what must agree
	Seq      uint64 // for records
}

// New makes a rank's end of a communicator.
func New(c Config) (*Group, error) {
	if len(c.Segments) == 0 || len(c.Segments) > layout.MaxRanks {
		return nil, fmt.Errorf("%w: %d ranks on devices, at most %d are possible", comm.ErrArgument, len(c.Segments), layout.MaxRanks)
	}
	g := &Group{context: c.Context, ranks: len(c.Segments), lanes: c.Lanes, launches: map[string]*cuda.Launch{}}
	if domains, err := c.Context.Device().Attribute(cuda.MemSyncDomains); err == nil {
		g.remote = domains > 1 && !c.OneDomain
	}
	var err error
	if g.code, err = loadCode(c.Context); err != nil {
		return nil, err
	}
	g.early = g.code.early && !c.Serial
	if g.pinned, err = c.Context.AllocHost(int(unsafe.Sizeof(layout.Page{}))); err != nil {
		return nil, g.closeWith(err)
	}
	clear(g.pinned.Bytes)
	g.page = (*layout.Page)(unsafe.Pointer(&g.pinned.Bytes[0]))
	if g.done, err = c.Context.NewEvent(false); err != nil {
		return nil, g.closeWith(err)
	}
	for p, s := range c.Segments {
		g.args.Segment[p] = uint64(s)
	}
	g.args.Page, g.args.TimeoutNs = uint64(g.pinned.Device), uint64(max(c.Timeout, time.Millisecond))
	g.args.Rank, g.args.Ranks, g.args.Lanes = uint32(c.Rank), uint32(g.ranks), uint32(c.Lanes)
	return g, nil
}

// Enqueue puts a call on a stream, behind the group's calls before it, and does not wait for
// it. An error is that of the launch; what fails later is in [Group.Failure].
func (g *Group) Enqueue(s cuda.Stream, c *Call) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	captured, err := s.Capturing()
	if err != nil {
		return err
	}
	if !captured && g.used && g.last != s.Handle() {
		if err := s.WaitEvent(g.done); err != nil {
			return err
		}
	}
	if g.ranks == 1 {
		err = g.alone(s, c)
	} else {
		err = g.launch(s, c)
	}
	if err != nil || captured {
		return err
	}
	g.used, g.last = true, s.Handle()
	return g.done.Record(s)
}

// alone is a call of one rank: its result is its contribution.
func (g *Group) alone(s cuda.Stream, c *Call) error {
	bytes := c.Count * c.ElemBytes
	dst, src := c.Dst.Ptr, c.Src.Ptr
	if b := c.Blocks; b != nil {
		bytes = int(b.SendBytes[0])
		dst, src = dst+cuda.Ptr(b.RecvAt[0]), src+cuda.Ptr(b.SendAt[0])
	}
	if bytes == 0 || dst == src {
		return nil
	}
	return s.CopyDtoD(dst, src, bytes)
}

func (g *Group) launch(s cuda.Stream, c *Call) error {
	a := &g.args
	a.Dst, a.DstBuffer, a.DstOffset = uint64(c.Dst.Ptr), uint32(c.Dst.Buffer), c.Dst.Offset
	a.Src, a.SrcBuffer, a.SrcOffset = uint64(c.Src.Ptr), uint32(c.Src.Buffer), c.Src.Offset
	a.Seq, a.Hash = c.Seq, c.Hash
	a.Collective, a.Op, a.Root = uint32(c.Collective), uint32(c.Op), uint32(c.Root)
	a.To, a.From = peer(c.To), peer(c.From)
	a.Flags = 0
	if c.InPlace {
		a.Flags = layout.InPlace
	}
	name, blocks, rows := g.choose(c)
	k := g.kernel(name)
	k.SetGrid(blocks, rows, 1)
	return k.Enqueue(s)
}

// peer is the other rank of a message, for a kernel.
func peer(rank int) uint32 {
	if rank < 0 {
		return layout.MaxRanks
	}
	return uint32(rank)
}

// laneLeast is the bytes of a block from which a large call has another lane.
const laneLeast = 16 << 10

// choose says by which kernel a call goes, and how many blocks that has, which depends on
// nothing but what all ranks agree on; and of how many rows of blocks, of which only the
// first has to do with other ranks. The arguments that depend on the kernel are set.
func (g *Group) choose(c *Call) (name string, blocks, rows int) {
	bytes := c.Count * c.ElemBytes
	small := bytes <= layout.SmallMost(g.ranks, g.lanes)
	blocks = max(1, min(g.lanes, (bytes+laneLeast-1)/laneLeast))
	if small {
		blocks = max(1, (bytes+layout.SmallBytes-1)/layout.SmallBytes)
	}
	switch c.Collective {
	case comm.OpSend, comm.OpRecv:
		g.blocks = *c.Blocks
		return layout.Mail, layout.MailBlocks(g.lanes) * (sides(c.To) + sides(c.From)), 1
	case comm.OpAllToAllV:
		g.blocks = *c.Blocks
		return layout.LargeMove, g.lanes, g.moveRows(c) // nobody knows all lengths
	case comm.OpAllReduce, comm.OpReduce, comm.OpReduceScatterBlock:
		g.args.Count = uint64(c.Count)
		if small {
			return layout.SmallReduce[c.Type], blocks, 1
		}
		return layout.LargeReduce[c.Type], blocks, 1
	}
	g.args.Count = uint64(bytes)
	switch {
	case small:
		return layout.SmallMove, blocks, 1
	case c.Collective == comm.OpBroadcast:
		return layout.LargeReduce[kernels.TypeUint8], blocks, 1
	}
	for p := range g.ranks {
		at, b := uint64(p*bytes), &g.blocks
		b.RecvAt[p], b.RecvBytes[p], b.SendAt[p], b.SendBytes[p] = at, uint64(bytes), at, uint64(bytes)
		if c.Collective == comm.OpAllGather {
			b.SendAt[p] = 0
		}
	}
	return layout.LargeMove, blocks, g.moveRows(c)
}

// moveRows is 2 where a rank's block for itself is to be copied, and by blocks of their own:
// what is read then is not written by the others.
func (g *Group) moveRows(c *Call) int {
	b, me := &g.blocks, g.args.Rank
	from, to := uint64(c.Src.Ptr)+b.SendAt[me], uint64(c.Dst.Ptr)+b.RecvAt[me]
	if c.InPlace || from == to || b.SendBytes[me] == 0 {
		return 1
	}
	return 2
}

func sides(peer int) int {
	if peer < 0 {
		return 0
	}
	return 1
}

// kernel returns the launch of a kernel, made on first use.
func (g *Group) kernel(name string) *cuda.Launch {
	if k, ok := g.launches[name]; ok {
		return k
	}
	k := newLaunch(g.code.functions[name], name, &g.args, &g.blocks)
	if g.remote {
		k.SetDomain(cuda.DomainRemote)
	}
	if g.early {
		k.SetProgrammatic(true)
	}
	g.launches[name] = k
	return k
}

// Failed is a word that is not 0 once a kernel has failed. It goes with [Group.Free].
func (g *Group) Failed() *uint64 { return &g.page.Record.Written }

// Failure returns what a kernel that failed has said, or nil.
func (g *Group) Failure() *layout.Record {
	g.pageMu.RLock()
	defer g.pageMu.RUnlock()
	if g.page == nil || atomic.LoadUint64(&g.page.Record.Written) == 0 {
		return nil
	}
	r := g.page.Record
	return &r
}

// Abort ends the kernels that are running or enqueued. It makes no call of the driver.
func (g *Group) Abort() {
	g.pageMu.RLock()
	defer g.pageMu.RUnlock()
	if g.page != nil {
		atomic.StoreUint64(&g.page.Abort, 1)
	}
}

// Close is End and Free.
func (g *Group) Close() error { return g.closeWith(nil) }

func (g *Group) closeWith(err error) error {
	if e := errors.Join(g.End(), g.Free()); err == nil {
		err = e
	}
	return err
}

// End waits for the calls that are not part of graphs, which is bounded as kernels are, and
// gives back what the group has but for what it knows of its kernels. Graphs with its calls
// must not run any more. The segments are the caller's.
func (g *Group) End() (err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return err
	}
	g.closed = true
	keep := func(e error) {
		if err == nil {
			err = e
		}
	}
	if g.used {
		keep(g.done.Synchronize())
	}
	if g.done != (cuda.Event{}) {
		keep(g.done.Destroy())
	}
	if g.code != nil {
		keep(g.code.release())
	}
	return err
}

// Free gives back what End has left: there is no Failure after.
func (g *Group) Free() error {
	g.pageMu.Lock()
	defer g.pageMu.Unlock()
	if g.page == nil {
		return nil
	}
	g.page = nil
	return g.pinned.Free()
}
