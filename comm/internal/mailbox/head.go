package mailbox

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/weft-go/weft/kernels"
)

// HeadBytes is the length of a header.
const HeadBytes = 24

// kind is what a message of the network is.
type kind uint8

const (
	eager    kind = iota + 1 // a whole message
	envelope                 // a message whose data is still with its sender
	clearing                 // the answer to an envelope: send
	data                     // a segment
)

// A head is the header of a message of the network.
type head struct {
	kind  kind
	elem  Elem   // eager, envelope
	tag   uint32 // eager, envelope
	bytes int    // eager, envelope: of the whole message
	// id is the sender's number of an envelope's message, in the envelope and in its
	// clearing; in a segment it is the number that the clearing gave.
	id     uint32
	answer uint32 // clearing: the receiver's number of the message
}

func (h head) put(b *[HeadBytes]byte) {
	b[0], b[1], b[2], b[3] = byte(h.kind), byte(h.elem.Type), 0, 0
	binary.LittleEndian.PutUint32(b[4:], uint32(h.elem.Bytes))
	binary.LittleEndian.PutUint32(b[8:], h.id)
	if h.kind == clearing {
		binary.LittleEndian.PutUint32(b[12:], h.answer)
	} else {
		binary.LittleEndian.PutUint32(b[12:], h.tag)
	}
	binary.LittleEndian.PutUint64(b[16:], uint64(h.bytes))
}

// parse takes a message of the network apart. What it returns can be used
// without further thought, numbers excepted.
func parse(msg []byte) (h head, body []byte, err error) {
	if len(msg) < HeadBytes {
		return head{}, nil, fmt.Errorf("%d bytes are no message", len(msg))
	}
	body = msg[HeadBytes:]
	bytes := binary.LittleEndian.Uint64(msg[16:])
	elem := binary.LittleEndian.Uint32(msg[4:])
	h = head{kind: kind(msg[0]), elem: Elem{Type: kernels.Type(msg[1])}, id: binary.LittleEndian.Uint32(msg[8:])}
	switch h.kind {
	case eager, envelope:
		h.tag = binary.LittleEndian.Uint32(msg[12:])
		if h.tag > MaxTag || bytes > math.MaxInt || elem == 0 || elem > math.MaxInt32 || bytes%uint64(elem) != 0 {
			return head{}, nil, fmt.Errorf("a message with tag %d, %d bytes in elements of %d", h.tag, bytes, elem)
		}
		h.elem.Bytes, h.bytes = int(elem), int(bytes)
		if h.kind == eager && h.bytes != len(body) || h.kind == envelope && len(body) > 0 {
			return head{}, nil, fmt.Errorf("%d bytes of a message of %d", len(body), bytes)
		}
	case clearing:
		h.answer = binary.LittleEndian.Uint32(msg[12:])
	case data:
		if len(body) == 0 {
			return head{}, nil, fmt.Errorf("an empty segment")
		}
	default:
		return head{}, nil, fmt.Errorf("a message of kind %d", h.kind)
	}
	return h, body, nil
}
