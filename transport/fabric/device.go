package fabric

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/mapped"
)

// A device stands for a rank's GPU: its memory, and the blocks of the endpoints
// that live on it. A rank has one of its own and imports those of its peers.
type device struct {
	id      uint64
	rank    int
	cliques map[CliqueType]uint32
	secret  [32]byte
	space   space
}

// A space is where a device's blocks and memory are.
type space interface {
	// block returns a block of the device.
	block(i uint64) (block, bool)
	// region returns memory that a binding names.
	region(ref, size uint64, shadowed bool) (region, bool)
	// populate has the pages of a region mapped, so that the first access is not slow.
	populate(r region)
	// export fills in what a peer needs to import the device.
	export(x *transport.Exported) error
	// close gives up what the importer of a device mapped.
	close() error
}

// An ownSpace is the space of one's own device.
type ownSpace interface {
	space
	// blocks is how many blocks there are.
	blocks() uint64
	alloc(size uint64, shadowed bool) (ref uint64, err error)
	free(ref, size uint64, shadowed bool) error
	// release gives the mapping up. Nothing of the device may be used any more.
	release() error
}

// A region is memory of a device with what belongs to it.
type region struct {
	data   []byte
	bell   mapped.Bell
	shadow shadow
}

// newIdentity draws what others know a device by.
func newIdentity(rank int, cliques map[CliqueType]uint32) *device {
	d := &device{rank: rank, cliques: cliques}
	rand.Read(d.secret[:]) // never fails
	d.id = newNonce()
	return d
}

// newNonce returns a random number that is not zero.
func newNonce() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:]) | 1
}

// mac authenticates what the device says. Whoever can map the device's memory
// has its secret: the descriptor is the capability, and the job's key keeps out
// those that got hold of one.
func (d *device) mac(jobKey, text []byte) [16]byte {
	key := hmac.New(sha256.New, d.secret[:])
	key.Write(jobKey)
	h := hmac.New(sha256.New, key.Sum(nil))
	h.Write(text)
	var out [16]byte
	copy(out[:], h.Sum(nil))
	return out
}
