package pointer

import (
	"github.com/weft-go/weft/transport"
)

// Put implements [transport.Transport].
func (t *Transport) Put(c transport.Completion, dst transport.Handle, src []byte) error {
	e, err := t.access(c, dst, len(src), unicast, len(src)/transport.Granule)
	if err != nil {
		return err
	}
	copyIn(e.replicas[0].data[dst.Offset:], src)
	return nil
}

// PutMasked implements [transport.Transport].
func (t *Transport) PutMasked(c transport.Completion, dst transport.Handle, src []byte, mask uint16) error {
	e, err := t.access(c, dst, len(src), unicast, len(src)/transport.Granule)
	if err != nil {
		return err
	}
	to := e.replicas[0].data[dst.Offset:]
	for i, b := range src {
		if mask>>(i%transport.Granule)&1 != 0 {
			to[i] = b
		}
	}
	return nil
}

// PutCounted implements [transport.Transport].
func (t *Transport) PutCounted(c transport.Completion, dst transport.Handle, src []byte, counterOffset uint64) error {
	return t.putCounted(c, dst, src, counterOffset, unicast)
}

// PutMultimem implements [transport.Transport].
func (t *Transport) PutMultimem(c transport.Completion, dst transport.Handle, src []byte) error {
	e, err := t.access(c, dst, len(src), multicast, len(src)/transport.Granule)
	if err != nil {
		return err
	}
	for i := range e.replicas {
		copyIn(e.replicas[i].data[dst.Offset:], src)
	}
	return nil
}

// PutCountedMultimem implements [transport.Transport].
func (t *Transport) PutCountedMultimem(c transport.Completion, dst transport.Handle, src []byte, counterOffset uint64) error {
	return t.putCounted(c, dst, src, counterOffset, multicast)
}

func (t *Transport) putCounted(c transport.Completion, dst transport.Handle, src []byte, counterOffset uint64, cast casting) error {
	e, err := t.lookup(dst, uint64(len(src)), transport.Granule)
	if err != nil {
		return err
	}
	if err := e.counter(dst, len(src), counterOffset); err != nil {
		return err
	}
	if _, err := t.access(c, dst, len(src), cast, len(src)/transport.Granule); err != nil {
		return err
	}
	for i := range e.replicas {
		copyIn(e.replicas[i].data[dst.Offset:], src)
		e.replicas[i].count(counterOffset, len(src))
	}
	return nil
}

// count adds to a counter and wakes its owner.
func (r *replica) count(offset uint64, n int) {
	word(r.data, offset).Add(uint64(n))
	r.bell.ringIfArmed()
}

// copyBlock is the most that one copy moves: from 1 MiB on, Go's copy goes
// around the cache, and the peer would read from memory what was just written.
const copyBlock = 256 << 10

func copyIn(dst, src []byte) {
	for len(src) > copyBlock {
		copy(dst, src[:copyBlock])
		dst, src = dst[copyBlock:], src[copyBlock:]
	}
	copy(dst, src)
}

// Get implements [transport.Transport].
func (t *Transport) Get(c transport.Completion, dst []byte, src transport.Handle) error {
	e, err := t.access(c, src, len(dst), unicast, len(dst))
	if err != nil {
		return err
	}
	copyIn(dst, e.replicas[0].data[src.Offset:src.Offset+uint64(len(dst))])
	return nil
}
