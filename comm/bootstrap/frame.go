package bootstrap

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
)

// A frame is the unit on the wire: a header of headerLen bytes, then data.
//
//	0      magic
//	1      type
//	2      kind
//	3      number of descriptors that come with it
//	4:8    length of data
//	8:16   comm
//	16:24  seq
//
// On a packet socket a frame is one packet; on a stream frames follow one another.
type frame struct {
	typ       frameType
	kind      uint8
	comm, seq uint64
	data      []byte
	files     []*os.File
}

type frameType uint8

const (
	frameMessage   frameType = iota + 1 // a Message
	frameGoodbye                        // the sender closes; nothing but frameSeen follows
	frameSeen                           // the sender has taken the receiver's goodbye
	frameChallenge                      // version and nonce, first frame of an accepted connection
	frameHello                          // who dials, and proof of the token
	frameWelcome                        // proof of the token by the one who accepted
	frameRefuse                         // a JoinError
	frameTable                          // part of the table of ranks; kind 1 is the last part
	frameReady                          // a rank has all its connections
	frameGo                             // so have all others
	frameEnd                            // not a frame
)

const (
	magic     = 0x77
	headerLen = 24
	maxFrame  = headerLen + MaxData
)

// appendHeader appends the header of f to b.
func (f *frame) appendHeader(b []byte) []byte {
	b = append(b, magic, byte(f.typ), f.kind, byte(len(f.files)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.data)))
	b = binary.BigEndian.AppendUint64(b, f.comm)
	return binary.BigEndian.AppendUint64(b, f.seq)
}

// encode returns f as bytes that share nothing with it.
func (f *frame) encode() []byte {
	b := make([]byte, 0, headerLen+len(f.data))
	return append(f.appendHeader(b), f.data...)
}

// decodeHeader reads a header and says how much data and how many descriptors
// belong to it.
func decodeHeader(b []byte) (f frame, length, files int, err error) {
	if len(b) < headerLen {
		return f, 0, 0, fmt.Errorf("%w: %d bytes", ErrProtocol, len(b))
	}
	f = frame{
		typ: frameType(b[1]), kind: b[2],
		comm: binary.BigEndian.Uint64(b[8:]), seq: binary.BigEndian.Uint64(b[16:]),
	}
	files = int(b[3])
	n := binary.BigEndian.Uint32(b[4:])
	switch {
	case b[0] != magic:
		err = fmt.Errorf("%w: first byte is %#x", ErrProtocol, b[0])
	case f.typ == 0 || f.typ >= frameEnd:
		err = fmt.Errorf("%w: type %d", ErrProtocol, f.typ)
	case n > MaxData:
		err = fmt.Errorf("%w: %d bytes of data", ErrProtocol, n)
	case files > MaxFiles || files > 0 && f.typ != frameMessage:
		err = fmt.Errorf("%w: %d descriptors", ErrProtocol, files)
	}
	return f, int(n), files, err
}

// decodePacket reads a frame that is all of b. The data is a copy.
func decodePacket(b []byte) (f frame, files int, err error) {
	f, n, files, err := decodeHeader(b)
	if err != nil {
		return frame{}, 0, err
	}
	if len(b) != headerLen+n {
		return frame{}, 0, fmt.Errorf("%w: packet of %d bytes, not %d", ErrProtocol, len(b), headerLen+n)
	}
	if n > 0 {
		f.data = append([]byte(nil), b[headerLen:]...)
	}
	return f, files, nil
}

// readFrame reads a frame from a stream. Descriptors can't come with it.
func readFrame(r io.Reader) (frame, error) {
	var head [headerLen]byte
	if _, err := io.ReadFull(r, head[:1]); err != nil {
		return frame{}, err
	}
	if head[0] != magic { // don't wait for the rest of something else
		return frame{}, fmt.Errorf("%w: first byte is %#x", ErrProtocol, head[0])
	}
	if _, err := io.ReadFull(r, head[1:]); err != nil {
		return frame{}, unexpected(err)
	}
	f, n, files, err := decodeHeader(head[:])
	if err != nil {
		return frame{}, err
	}
	if files > 0 {
		return frame{}, fmt.Errorf("%w: descriptors on a stream", ErrProtocol)
	}
	if n > 0 {
		f.data = make([]byte, n)
		if _, err := io.ReadFull(r, f.data); err != nil {
			return frame{}, unexpected(err)
		}
	}
	return f, nil
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
