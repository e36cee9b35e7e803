package fabric

import "github.com/weft-go/weft/transport/internal/mapped"

// A shadow knows, in the strict mode, which 16-byte units of a memory were
// written through endpoints and through pointers, and when: in numbers of writes,
// compared as numbers that wrap around.
//
//	head 0   writes through endpoints
//	     4   writes through pointers, by the owner's view
//	     8   of these, those before the owner's last release fence
//	     12  rank of the last writer through an endpoint, plus 1
//	per unit: number of the last write through an endpoint, and through a pointer
type shadow struct {
	head, units []byte
}

const (
	shadowHeadBytes = 16
	shadowUnit      = 16 // bytes of memory
	shadowEntry     = 8  // bytes of shadow for them

	shadowFabric   = 0
	shadowPointer  = 4
	shadowReleased = 8
	shadowWriter   = 12
)

func shadowBytes(size uint64) uint64 {
	return mapped.RoundUp(size, shadowUnit) / shadowUnit * shadowEntry
}

func newShadow(head, units []byte) shadow { return shadow{head, units} }

func (s *shadow) on() bool { return s.units != nil }

// mark notes a write to n bytes at offset.
func (s *shadow) mark(kind uint64, offset, n uint64) {
	stamp := mapped.Word32(s.head, kind).Add(1)
	for u := offset / shadowUnit; u*shadowUnit < offset+n; u++ {
		mapped.Word32(s.units, u*shadowEntry+kind).Store(stamp)
	}
}

// later finds a unit whose last write of a kind is not among the first seen ones.
func (s *shadow) later(kind uint64, seen uint32, offset, n uint64) (at uint64, found bool) {
	for u := offset / shadowUnit; u*shadowUnit < offset+n; u++ {
		if stamp := mapped.Word32(s.units, u*shadowEntry+kind).Load(); stamp != 0 && int32(stamp-seen) > 0 {
			return u * shadowUnit, true
		}
	}
	return 0, false
}

func (s *shadow) writes(kind uint64) uint32 { return mapped.Word32(s.head, kind).Load() }

// wroteByFabric notes a write through an endpoint by a rank.
func (s *shadow) wroteByFabric(rank int, offset, n uint64) {
	mapped.Word32(s.head, shadowWriter).Store(uint32(rank + 1))
	s.mark(shadowFabric, offset, n)
}

// release is the owner's fence.
func (s *shadow) release() {
	mapped.Word32(s.head, shadowReleased).Store(s.writes(shadowPointer))
}

func (s *shadow) writer() int { return int(s.writes(shadowWriter)) - 1 }
