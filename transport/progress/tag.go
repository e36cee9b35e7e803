package progress

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/weft-go/weft/transport/progress/lane"
)

// A Tag says which call a message belongs to, and which part of it.
type Tag struct {
	Seq       uint32 // low bits of the call's sequence number
	Signature uint32 // hash of what all ranks must agree on
	Bytes     uint32 // payload length
	Part      uint16 // number of the message within the call on this lane, its low 15 bits
}

const (
	partBits = 15

	// Where the bulletin lies in the 16 bytes, which is no part of what a tag says: a bit
	// above the part, and two bytes.
	bulletinBit = 1 << partBits
	bulletinAt  = 14
)

// partOf is the part of a tag for message number n.
func partOf(n uint32) uint16 { return uint16(n & (bulletinBit - 1)) }

func (t Tag) put(b []byte) {
	binary.LittleEndian.PutUint32(b, t.Seq)
	binary.LittleEndian.PutUint32(b[4:], t.Signature)
	binary.LittleEndian.PutUint32(b[8:], t.Bytes)
	binary.LittleEndian.PutUint16(b[12:], t.Part)
}

// putBulletin adds a bulletin to a tag that was put.
func putBulletin(b []byte, n lane.Bulletin) {
	if n.Low {
		b[13] |= bulletinBit >> 8
	}
	for i, p := range n.Places {
		b[bulletinAt+i] = byte(p)
	}
}

func getBulletin(b []byte) (n lane.Bulletin) {
	n.Low = b[13]&(bulletinBit>>8) != 0
	for i := range n.Places {
		n.Places[i] = lane.Place(b[bulletinAt+i])
	}
	return n
}

// loadTag is getTag where the tag may be written meanwhile, since a message is longer than
// was expected: the tag that was there before, or parts of both.
func loadTag(b []byte) Tag {
	if uintptr(unsafe.Pointer(&b[0]))%8 != 0 {
		return getTag(b)
	}
	var words [tagBytes]byte
	for i := 0; i < tagBytes; i += 8 {
		binary.NativeEndian.PutUint64(words[i:], (*atomic.Uint64)(unsafe.Pointer(&b[i])).Load())
	}
	return getTag(words[:])
}

func getTag(b []byte) Tag {
	return Tag{
		Seq:       binary.LittleEndian.Uint32(b),
		Signature: binary.LittleEndian.Uint32(b[4:]),
		Bytes:     binary.LittleEndian.Uint32(b[8:]),
		Part:      partOf(uint32(binary.LittleEndian.Uint16(b[12:]))),
	}
}

// A MismatchError reports that a peer's message is not the one this rank's call
// expects: the two ranks are in different calls, or in one with different arguments.
type MismatchError struct {
	Peer      int
	Got, Want Tag
	Note      string // what the caller knows of it, for people
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("message from rank %d does not belong to this call (got %+v, want %+v)", e.Peer, e.Got, e.Want)
}
