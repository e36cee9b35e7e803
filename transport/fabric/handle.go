package fabric

import (
	"bytes"
	"crypto/subtle"
	"encoding/binary"
	"fmt"

	"github.com/weft-go/weft/transport"
)

// An exported handle, little-endian. All of it is authenticated: see device.mac.
//
//	0   8 bytes   magic
//	8   u32       what it is
//	12  u32       flags
//	16  u64       size of the endpoint
//	24  u64       number of its block; of a device that joins, the member's rank
//	32  u64       nonce of the endpoint
//	40  u64       device
//	48  16 bytes  authentication
type handle struct {
	what    uint32
	counted bool
	size    uint64
	block   uint64
	nonce   uint64
	device  uint64
}

// What a handle is.
const (
	handleUnicast   = uint32(kindUnicast)
	handleMulticast = uint32(kindMulticast)
	handleDevice    = 16 // a device, on the way to a multicast endpoint
	handleJoined    = 17 // and the news that it has joined
)

const (
	handleCounted = 1
	handleText    = 48 // bytes before the authentication
)

var handleMagic = [8]byte{'w', 'e', 'f', 't', 'f', 'a', 'b', 1}

func (h handle) encode(d *device, jobKey []byte) (b [transport.HandleBytes]byte) {
	copy(b[:], handleMagic[:])
	binary.LittleEndian.PutUint32(b[8:], h.what)
	if h.counted {
		binary.LittleEndian.PutUint32(b[12:], handleCounted)
	}
	binary.LittleEndian.PutUint64(b[16:], h.size)
	binary.LittleEndian.PutUint64(b[24:], h.block)
	binary.LittleEndian.PutUint64(b[32:], h.nonce)
	binary.LittleEndian.PutUint64(b[40:], h.device)
	mac := d.mac(jobKey, b[:handleText])
	copy(b[handleText:], mac[:])
	return b
}

// parseHandle reads a handle; it is not to be believed before authenticate.
func parseHandle(b [transport.HandleBytes]byte) (handle, error) {
	if !bytes.Equal(b[:8], handleMagic[:]) {
		return handle{}, fmt.Errorf("%w: wrong magic", transport.ErrHandle)
	}
	return handle{
		what:    binary.LittleEndian.Uint32(b[8:]),
		counted: binary.LittleEndian.Uint32(b[12:]) == handleCounted,
		size:    binary.LittleEndian.Uint64(b[16:]),
		block:   binary.LittleEndian.Uint64(b[24:]),
		nonce:   binary.LittleEndian.Uint64(b[32:]),
		device:  binary.LittleEndian.Uint64(b[40:]),
	}, nil
}

// authenticate says whether the device made the handle, for this job.
func authenticate(b [transport.HandleBytes]byte, d *device, jobKey []byte) error {
	mac := d.mac(jobKey, b[:handleText])
	if subtle.ConstantTimeCompare(mac[:], b[handleText:]) != 1 {
		return fmt.Errorf("%w: not authentic, or of another job", transport.ErrHandle)
	}
	return nil
}
