package progress

import (
	"encoding/binary"
	"fmt"
)

// A Tag says which call a message belongs to, and which part of it.
type Tag struct {
	Seq       uint32 // low bits of the call's sequence number
	Signature uint32 // hash of what all ranks must agree on
	Bytes     uint32 // payload length
	Part      uint32 // number of the message within the call on this lane
}

func (t Tag) put(b []byte) {
	binary.LittleEndian.PutUint32(b, t.Seq)
	binary.LittleEndian.PutUint32(b[4:], t.Signature)
	binary.LittleEndian.PutUint32(b[8:], t.Bytes)
	binary.LittleEndian.PutUint32(b[12:], t.Part)
}

func getTag(b []byte) Tag {
	return Tag{
		Seq:       binary.LittleEndian.Uint32(b),
		Signature: binary.LittleEndian.Uint32(b[4:]),
		Bytes:     binary.LittleEndian.Uint32(b[8:]),
		Part:      binary.LittleEndian.Uint32(b[12:]),
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
