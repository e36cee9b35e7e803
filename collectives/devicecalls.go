package collectives

import (
	"fmt"
	"slices"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
	gpu "github.com/weft-go/weft/kernels/cuda"
)

// AllReduceDevice reduces the elements of src over all ranks and stores the result in dst on
// every rank. dst and src have the same number of elements on all ranks; dst may be src. Like all
// calls on devices it is enqueued behind the communicator's calls before it; but where stream is
// being captured the graph alone orders it, see the package. Errors: [ErrCount], [ErrType],
// [ErrAlign], [ErrOverlap], [ErrOperator], and those of the package.
func AllReduceDevice(c *comm.Communicator, dst, src DeviceSlice, op kernels.Op, stream uintptr) error {
	d := newDeviceCall(c, comm.OpAllReduce, dst, src, src.Count)
	d.reduceBy(op)
	d.counts("dst", dst, src.Count)
	d.alias()
	return d.enqueue(stream)
}

// ReduceDevice is AllReduceDevice with the result on root alone. On other ranks dst is not looked at.
// Errors: [ErrRoot] and those of AllReduceDevice.
func ReduceDevice(c *comm.Communicator, dst, src DeviceSlice, op kernels.Op, root int, stream uintptr) error {
	if c.Rank() != root {
		dst = DeviceSlice{Type: src.Type}
	}
	d := newDeviceCall(c, comm.OpReduce, dst, src, src.Count)
	d.call.Root = root
	d.refuse(checkRoot(c, root))
	d.reduceBy(op)
	if c.Rank() == root {
		d.counts("dst", dst, src.Count)
		d.alias()
	}
	return d.enqueue(stream)
}

// ReduceScatterBlockDevice reduces block p of src over all ranks, and stores the result in dst on
// rank p. src has Size·count elements and dst has count, the same on all ranks. dst may be this
// rank's block of src. Errors: those of AllReduceDevice.
func ReduceScatterBlockDevice(c *comm.Communicator, dst, src DeviceSlice, op kernels.Op, stream uintptr) error {
	d := newDeviceCall(c, comm.OpReduceScatterBlock, dst, src, dst.Count)
	d.reduceBy(op)
	d.blocksOf("src", src, dst.Count)
	d.blockOf("dst", dst, src)
	return d.enqueue(stream)
}

// BroadcastDevice copies buf from root to all other ranks. It has the same number of elements on
// all. Errors: [ErrCount], [ErrType], [ErrAlign], [ErrRoot], and those of the package.
func BroadcastDevice(c *comm.Communicator, buf DeviceSlice, root int, stream uintptr) error {
	d := newDeviceCall(c, comm.OpBroadcast, buf, buf, buf.Count)
	d.call.Root = root
	d.refuse(checkRoot(c, root))
	return d.enqueue(stream)
}

// AllGatherDevice puts the count elements of each rank's src into dst, of Size·count elements, on
// every rank, in rank order. src may be this rank's block of dst. Errors: [ErrCount], [ErrType],
// [ErrAlign], [ErrOverlap], and those of the package.
func AllGatherDevice(c *comm.Communicator, dst, src DeviceSlice, stream uintptr) error {
	d := newDeviceCall(c, comm.OpAllGather, dst, src, src.Count)
	d.blocksOf("dst", dst, src.Count)
	d.blockOf("src", src, dst)
	return d.enqueue(stream)
}

// AllToAllDevice sends block p of src to rank p, where it becomes block Rank of dst. dst and src have
// Size·count elements each, the same on all ranks; dst may be src. Errors: those of AllGatherDevice.
func AllToAllDevice(c *comm.Communicator, dst, src DeviceSlice, stream uintptr) error {
	count := src.Count / max(c.Size(), 1)
	d := newDeviceCall(c, comm.OpAllToAll, dst, src, count)
	d.blocksOf("src", src, count)
	d.blocksOf("dst", dst, count)
	d.alias()
	return d.enqueue(stream)
}

// AllToAllVDevice is AllToAllDevice with blocks of different length, as [AllToAllV] is
// [AllToAll]: dstCounts[p] on rank r is srcCounts[r] on rank p. dst may be src if dstCounts equals
// srcCounts. Errors: those of AllGatherDevice.
func AllToAllVDevice(c *comm.Communicator, dst DeviceSlice, dstCounts []int, src DeviceSlice, srcCounts []int, stream uintptr) error {
	d := newDeviceCall(c, comm.OpAllToAllV, dst, src, src.Count)
	e := element{t: src.Type, size: src.Type.Size()}
	in, inErr := e.total(c, "dstCounts", dstCounts)
	out, outErr := e.total(c, "srcCounts", srcCounts)
	d.refuse(first(inErr, outErr))
	d.counts("dst", dst, in)
	d.counts("src", src, out)
	d.alias()
	if d.err == nil {
		me := c.Rank()
		switch {
		case dstCounts[me] != srcCounts[me]:
			d.err = fmt.Errorf("%w: this rank sends itself %d and expects %d", ErrCount, srcCounts[me], dstCounts[me])
		case !dst.apartFrom(src) && !slices.Equal(dstCounts, srcCounts):
			d.err = fmt.Errorf("%w: in place, and dstCounts is not srcCounts", ErrOverlap)
		case c.Size() <= gpu.MaxRanks:
			d.blocks = &gpu.Blocks{}
			for p := range c.Size() {
				d.blocks.SendAt[p], d.blocks.SendBytes[p] = uint64(e.start(srcCounts, p)), uint64(srcCounts[p]*e.size)
				d.blocks.RecvAt[p], d.blocks.RecvBytes[p] = uint64(e.start(dstCounts, p)), uint64(dstCounts[p]*e.size)
			}
		}
	}
	return d.enqueue(stream)
}

// BarrierDevice holds the stream until the streams of all ranks have come to it. Errors: those of
// the package.
func BarrierDevice(c *comm.Communicator, stream uintptr) error {
	none := DeviceSlice{Type: kernels.TypeUint8}
	d := newDeviceCall(c, comm.OpBarrier, none, none, 0)
	return d.enqueue(stream)
}

// SendDevice sends src to a rank, which receives it by [RecvDevice]. Messages from one rank to
// another are received in the order in which they were sent, and have the same number of elements
// and type on both sides; there are no tags.
//
// From one rank to another, one message of up to 512 KiB or two of up to 256 KiB each may be on
// their way before they are received. A longer message, and a third one even if all are empty,
// waits on the device for a receive, and the rank's later calls of the communicator wait behind
// it, on whatever stream. So two ranks that both send three times and then receive wait for each
// other until the timeout. To exchange, use [SendRecvDevice], which has no such bound.
//
// Errors: [ErrCount], [ErrType], [ErrAlign], [ErrRoot] for a rank that is none or this one, and
// those of the package.
func SendDevice(c *comm.Communicator, src DeviceSlice, to int, stream uintptr) error {
	d := newDeviceCall(c, comm.OpSend, DeviceSlice{Type: src.Type}, src, src.Count)
	d.sendTo(to)
	return d.post(stream)
}

// RecvDevice receives into dst what a rank sends by [SendDevice]. Errors: those of SendDevice.
func RecvDevice(c *comm.Communicator, dst DeviceSlice, from int, stream uintptr) error {
	d := newDeviceCall(c, comm.OpRecv, dst, DeviceSlice{Type: dst.Type}, dst.Count)
	d.recvFrom(from)
	return d.post(stream)
}

// SendRecvDevice sends src to one rank while it receives dst, of as many elements, from one, which
// may be the same. Errors: [ErrOverlap] and those of SendDevice.
func SendRecvDevice(c *comm.Communicator, dst DeviceSlice, from int, src DeviceSlice, to int, stream uintptr) error {
	d := newDeviceCall(c, comm.OpSend, dst, src, src.Count)
	d.counts("dst", dst, src.Count)
	if d.err == nil && !dst.apartFrom(src) {
		d.err = ErrOverlap
	}
	d.sendTo(to)
	d.recvFrom(from)
	return d.post(stream)
}

// blocksOf checks that a slice has a block for each rank.
func (d *deviceCall) blocksOf(name string, s DeviceSlice, count int) {
	if d.err == nil && s.Count != count*d.c.Size() {
		d.err = fmt.Errorf("%w: %s has %d, which are not %d blocks of %d", ErrCount, name, s.Count, d.c.Size(), count)
	}
}

// blockOf allows a part that shares nothing with the whole, or is this rank's block of it.
func (d *deviceCall) blockOf(name string, part, whole DeviceSlice) {
	if d.err == nil && !part.apartFrom(whole) && !part.sameAs(whole.from(d.c.Rank()*part.Count, part.Count)) {
		d.err = fmt.Errorf("%w: %s may only be this rank's block of the other", ErrOverlap, name)
	}
}

// sendTo sets and checks the rank to which a message goes, and recvFrom the one it comes from.
func (d *deviceCall) sendTo(to int) {
	d.call.Root = to
	if d.message(to) {
		d.to, d.blocks.SendBytes[to] = to, uint64(d.src.bytes())
	}
}

func (d *deviceCall) recvFrom(from int) {
	if d.call.Collective == comm.OpRecv {
		d.call.Root = from
	}
	if d.message(from) {
		d.from, d.blocks.RecvBytes[from] = from, uint64(d.dst.bytes())
	}
}

// message says whether a peer can be that of a message, and refuses the call if not.
func (d *deviceCall) message(peer int) bool {
	if d.err == nil && (peer < 0 || peer >= d.c.Size() || peer == d.c.Rank()) {
		d.err = fmt.Errorf("%w: message of rank %d with rank %d of %d", ErrRoot, d.c.Rank(), peer, d.c.Size())
	}
	if d.blocks == nil {
		d.blocks = &gpu.Blocks{}
	}
	return d.err == nil && peer < gpu.MaxRanks // more ranks are refused later
}
