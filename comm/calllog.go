package comm

import (
	"sync/atomic"

	"github.com/weft-go/weft/internal/release"
	"github.com/weft-go/weft/kernels"
)

// Limits of what a packed call holds.
const (
	maxRanks     = 1 << 24
	maxCount     = 1 << 48
	maxElemBytes = 1 << 46
)

// A packedCall is a call in words that also hold the low bits of its sequence
// number, so that a reader knows which call each belongs to. Most calls take two.
type packedCall struct{ a, b, c, d uint64 }

const (
	packedMore   = 1 << 7  // of a: c and d are used
	packedFunc   = 1 << 47 // of c
	packedDevice = 1 << 46 // of c
	packedLow    = 1<<48 - 1
)

// pack packs a collective call: a tag has no place.
func (c Call) pack(seq uint64) packedCall {
	p := packedCall{
		a: packWhat(c.Collective, c.Type, c.Op, c.Root) | seq<<48,
		b: uint64(c.Count) | seq<<48,
	}
	if c.ElemBytes != 0 || c.Func || c.Device || c.Digest != 0 {
		p.a |= packedMore
		p.c = uint64(c.ElemBytes) | seq<<48
		if c.Func {
			p.c |= packedFunc
		}
		if c.Device {
			p.c |= packedDevice
		}
		p.d = uint64(c.Digest) | seq<<48
	}
	return p
}

func packWhat(k Collective, t kernels.Type, op kernels.Op, root int) uint64 {
	return uint64(k) | uint64(t)<<8 | uint64(op)<<16 | uint64(root)<<24
}

func (p packedCall) unpack() Call {
	c := Call{
		Collective: Collective(p.a & (packedMore - 1)), Type: kernels.Type(p.a >> 8), Op: kernels.Op(p.a >> 16),
		Root: int(p.a >> 24 & (maxRanks - 1)), Count: int(p.b & packedLow),
	}
	if p.a&packedMore != 0 {
		c.ElemBytes, c.Func, c.Digest = int(p.c&(maxElemBytes-1)), p.c&packedFunc != 0, uint32(p.d)
		c.Device = p.c&packedDevice != 0
	}
	return c
}

// signature hashes what all ranks must agree on of a call that is packed as p.
func (c Call) signature(p packedCall) uint32 {
	if c.Collective.form().ownsize {
		p.b = 0
	}
	h := (p.a&packedLow)*0x9e3779b97f4a7c15 ^ (p.b&packedLow)*0xc2b2ae3d27d4eb4f
	if p.a&packedMore != 0 {
		h ^= h >> 31
		h += (p.c&packedLow)*0x94d049bb133111eb ^ (p.d&packedLow)*0xd6e8feb86659fd93
	}
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	return uint32(h >> 32)
}

// extend adds a call's signature to the hash of all before it. Messages carry
// this, so that ranks which disagreed about calls without messages between them find
// out by the next one. Each step is a bijection of both: a difference does not vanish
// by calls that are the same.
func extend(history, signature uint32) uint32 {
	h := history*0x9e3779b1 + signature
	h ^= h >> 15
	h *= 0x85ebca6b
	return h ^ h>>13
}

// callLog remembers the last calls, for the peers that ask. It has one writer.
type callLog [16]struct {
	a, b, c, d atomic.Uint64
	members    atomic.Pointer[Members] // of the last Group in this place
}

func (l *callLog) store(seq uint64, p packedCall) {
	r := &l[seq%uint64(len(l))]
	if p.a&packedMore != 0 {
		release.Store(&r.c, p.c)
		release.Store(&r.d, p.d)
	}
	release.Store(&r.a, p.a)
	release.Store(&r.b, p.b)
}

// load returns call number seq if it is still there.
func (l *callLog) load(seq uint64) (Call, bool) {
	r := &l[seq%uint64(len(l))]
	p := packedCall{a: r.a.Load(), b: r.b.Load()}
	of := func(word uint64) bool { return word>>48 == seq&0xffff }
	if !of(p.a) || !of(p.b) || p.a&0xff == 0 {
		return Call{}, false
	}
	if p.a&packedMore != 0 {
		if p.c, p.d = r.c.Load(), r.d.Load(); !of(p.c) || !of(p.d) {
			return Call{}, false
		}
	}
	return p.unpack(), true
}

// first is the first call that may be remembered when last is the last.
func (l *callLog) first(last uint64) uint64 { return max(last, uint64(len(l))) - uint64(len(l)) + 1 }
