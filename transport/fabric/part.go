package fabric

import (
	"slices"
	"sync/atomic"
	"unsafe"
)

// A part is one place that an operation reaches: an endpoint's owner, or one
// member of a multicast endpoint, as this rank sees it.
type part struct {
	dev   *device
	blk   block
	nonce uint64
	user  int // this rank's line in blk
	cache atomic.Pointer[view]
	stuck atomic.Uint64 // the generation at which its owner was waited for in vain
}

// A view is what is bound to a part at one generation.
type view struct {
	gen      uint64
	segments []segment // sorted
}

// A segment is a stretch of bound memory.
type segment struct {
	at, end uint64 // offsets in the endpoint
	data    []byte
	region  *region
	base    uint64 // of data in the region
}

func newPart(d *device, b block, nonce uint64, rank int) *part {
	return &part{dev: d, blk: b, nonce: nonce, user: b.newUser(rank)}
}

// view returns what is bound now, or nil if the endpoint is gone.
func (p *part) view() *view {
	if v := p.cache.Load(); v != nil && v.gen == p.blk.word(blockGen).Load() {
		return v
	}
	return p.resolve()
}

// enter begins the execution of a piece: as long as it lasts, what is bound stays
// where it is. leave ends it, also if there is nothing.
func (p *part) enter() *view {
	p.blk.pieces(p.user).Add(1)
	return p.view()
}

func (p *part) leave() { p.blk.pieces(p.user).Add(^uint64(0)) }

// resolve reads the bindings and finds their memory. It believes nothing that
// the device's memory says: a binding that can't be is left out.
func (p *part) resolve() *view {
	gen, entries, ok := p.blk.entries(p.stuck.Load())
	if !ok {
		p.stuck.Store(gen)
	}
	if !ok || p.blk.word(blockNonce).Load() != p.nonce {
		return nil
	}
	v := &view{gen: gen}
	for _, e := range entries {
		r, ok := p.dev.space.region(e.ref, e.memorySize, e.shadowed)
		if !ok || e.memoryOffset > e.memorySize || e.size > e.memorySize-e.memoryOffset || e.offset+e.size < e.offset || e.memoryOffset%8 != 0 {
			continue
		}
		r.data = r.data[e.memoryOffset : e.memoryOffset+e.size : e.memoryOffset+e.size]
		v.segments = append(v.segments, segment{at: e.offset, end: e.offset + e.size, data: r.data, region: &r, base: e.memoryOffset})
	}
	slices.SortFunc(v.segments, func(a, b segment) int {
		if a.at < b.at {
			return -1
		}
		return 1
	})
	if old := p.cache.Swap(v); old != nil {
		// What is bound later is used at once, by whoever asked.
		for _, s := range v.segments {
			if !slices.ContainsFunc(old.segments, func(o segment) bool {
				return o.at == s.at && o.end == s.end && unsafe.SliceData(o.data) == unsafe.SliceData(s.data)
			}) {
				p.dev.space.populate(region{data: s.data})
			}
		}
	}
	return v
}

// populate has what is bound mapped, so that the first operations are not slow.
func (p *part) populate() {
	if v := p.view(); v != nil {
		for _, s := range v.segments {
			p.dev.space.populate(region{data: s.data})
		}
	}
}

// find returns the segment with an offset in it.
func (v *view) find(offset uint64) *segment {
	for i := range v.segments {
		if s := &v.segments[i]; s.at <= offset && offset < s.end {
			return s
		}
	}
	return nil
}

// covers says whether n bytes at offset are bound, n > 0.
func (v *view) covers(offset, n uint64) bool {
	for {
		s := v.find(offset)
		if s == nil {
			return false
		}
		if n <= s.end-offset {
			return true
		}
		n -= s.end - offset
		offset = s.end
	}
}
