package pointer

import (
	"github.com/weft-go/weft/internal/cache"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/elementwise"
	"github.com/weft-go/weft/transport/internal/mapped"
)

// around is from how many bytes on a put goes around the cache if it was told to.
const around = 4 << 10

// Put implements [transport.Transport].
func (t *Transport) Put(c transport.Completion, dst transport.Handle, src []byte) error {
	return t.put(c, dst, src, unicast, counter{})
}

// PutCounted implements [transport.Transport].
func (t *Transport) PutCounted(c transport.Completion, dst transport.Handle, src []byte, counterOffset uint64) error {
	return t.put(c, dst, src, unicast, counter{true, counterOffset})
}

// PutMultimem implements [transport.Transport].
func (t *Transport) PutMultimem(c transport.Completion, dst transport.Handle, src []byte) error {
	return t.put(c, dst, src, multicast, counter{})
}

// PutCountedMultimem implements [transport.Transport].
func (t *Transport) PutCountedMultimem(c transport.Completion, dst transport.Handle, src []byte, counterOffset uint64) error {
	return t.put(c, dst, src, multicast, counter{true, counterOffset})
}

func (t *Transport) put(c transport.Completion, dst transport.Handle, src []byte, cast casting, count counter) error {
	e, err := t.access(c, dst, len(src), cast, count, len(src)/transport.Granule)
	if err != nil {
		return err
	}
	for i := range e.replicas {
		r := &e.replicas[i]
		if len(src) >= around && t.streams.Load() {
			cache.Stream(r.data[dst.Offset:], src)
		} else {
			elementwise.Copy(r.data[dst.Offset:], src)
		}
		if count.counts {
			r.count(count.offset, len(src))
		}
	}
	return nil
}

// PutMasked implements [transport.Transport].
func (t *Transport) PutMasked(c transport.Completion, dst transport.Handle, src []byte, mask uint16) error {
	e, err := t.access(c, dst, len(src), unicast, counter{}, len(src)/transport.Granule)
	if err != nil {
		return err
	}
	elementwise.CopyMasked(e.replicas[0].data[dst.Offset:], src, mask)
	return nil
}

// count adds to a counter and wakes its owner.
func (r *replica) count(offset uint64, n int) {
	mapped.Word(r.data, offset).Add(uint64(n))
	r.bell.RingIfArmed()
}

// Get implements [transport.Transport].
func (t *Transport) Get(c transport.Completion, dst []byte, src transport.Handle) error {
	e, err := t.access(c, src, len(dst), unicast, counter{}, len(dst))
	if err != nil {
		return err
	}
	elementwise.Copy(dst, e.replicas[0].data[src.Offset:src.Offset+uint64(len(dst))])
	return nil
}
