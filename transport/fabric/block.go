package fabric

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/weft-go/weft/transport/internal/mapped"
)

// A block is the state of one endpoint that its users share: memory of its
// owner's device that importers map. All words are changed atomically. What a
// user reads in it is checked before use: a peer may write anything there.
//
//	0      nonce of the endpoint, 0 in a free block
//	8      kind and flags
//	16     size of the offset space
//	24     generation of the bindings; odd while they change; never goes back
//	32     ids that name the endpoint, on all ranks
//	40     members that a multicast endpoint is to have
//	48     members that were added
//	56     importers so far
//	64     users, of 64 bytes each: pieces being executed, operations under way,
//	       rank of the last importer that got the line, plus 1
//	4160   number of bindings
//	4224   bindings, of 48 bytes each
//	7296   members, of 32 bytes each
type block []byte

const (
	blockBytes = 16 << 10

	blockNonce     = 0
	blockKind      = 8
	blockSize      = 16
	blockGen       = 24
	blockAliases   = 32
	blockWanted    = 40
	blockJoined    = 48
	blockImporters = 56

	blockUsers = 64
	userBytes  = 64
	// users is how many importers have a line of their own; more share them.
	users = 64

	blockBindings = blockUsers + users*userBytes
	bindingsAt    = blockBindings + 64
	bindingBytes  = 48
	// MaxBindings is how many bindings an endpoint has at most.
	MaxBindings = 64

	membersAt   = bindingsAt + MaxBindings*bindingBytes
	memberBytes = 32
	// MaxMembers is how many members a multicast endpoint has at most.
	MaxMembers = 256
)

// Kinds of endpoints, as blocks and handles have them.
const (
	kindUnicast uint64 = iota + 1
	kindMulticast
	kindReplica // what one member binds behind a multicast endpoint

	flagCounted = 1 << 8
	flagOwned   = 1 << 9 // the owner has not destroyed it
	kindMask    = 0xff
)

func (b block) word(offset uint64) *atomic.Uint64 { return mapped.Word(b, offset) }

// user i's count of pieces being executed, and of operations under way.
func (b block) pieces(i int) *atomic.Uint64 {
	return b.word(blockUsers + uint64(i)*userBytes)
}
func (b block) flights(i int) *atomic.Uint64 {
	return b.word(blockUsers + uint64(i)*userBytes + 8)
}

// newUser returns the number of the line of an importer.
func (b block) newUser(rank int) int {
	i := (b.word(blockImporters).Add(1) - 1) % users
	b.word(blockUsers + i*userBytes + 16).Store(uint64(rank + 1))
	return int(i)
}

// busy says whether a piece is being executed on the endpoint.
func (b block) busy() bool {
	for i := range users {
		if b.pieces(i).Load() != 0 {
			return true
		}
	}
	return false
}

// flying says whether operations are under way, and a rank whose they may be.
func (b block) flying() (rank int, any bool) {
	for i := range uint64(users) {
		if b.flights(int(i)).Load() != 0 {
			return int(b.word(blockUsers+i*userBytes+16).Load()) - 1, true
		}
	}
	return -1, false
}

func (b block) idle() bool {
	_, flying := b.flying()
	return !flying && !b.busy()
}

// A bindingEntry is a binding as a block has it.
type bindingEntry struct {
	offset, size    uint64 // in the endpoint
	ref, memorySize uint64 // of the whole memory
	memoryOffset    uint64
	shadowed        bool
}

// publish replaces the bindings. Only the owner does, under a lock of its own.
func (b block) publish(entries []bindingEntry) {
	b.word(blockGen).Add(1)
	b.word(blockBindings).Store(uint64(len(entries)))
	for i, e := range entries {
		at := bindingsAt + uint64(i)*bindingBytes
		flags := uint64(0)
		if e.shadowed {
			flags = 1
		}
		for j, v := range [...]uint64{e.offset, e.size, e.ref, e.memorySize, e.memoryOffset, flags} {
			b.word(at + uint64(j)*8).Store(v)
		}
	}
	b.word(blockGen).Add(1)
}

// An owner that does not run for a while may have begun to publish: readers yield to it,
// and then sleep. One that was killed there is waited for no longer than a second.
const (
	entriesYields   = 1000
	entriesPatience = time.Second
	entriesSleep    = 100 * time.Microsecond
)

// entries reads the bindings as they were at one generation. It fails if they
// keep changing, and if they are no bindings; and at once if their owner is still where it
// was waited for in vain, with a generation that is odd: stuck.
func (b block) entries(stuck uint64) (gen uint64, entries []bindingEntry, ok bool) {
	var since time.Time
	for tries := 0; ; tries++ {
		if gen = b.word(blockGen).Load(); gen%2 == 1 && gen == stuck {
			return gen, nil, false
		}
		if gen%2 == 0 {
			n := b.word(blockBindings).Load()
			if n > MaxBindings {
				return gen, nil, false
			}
			entries = make([]bindingEntry, n)
			for i := range entries {
				var v [6]uint64
				for j := range v {
					v[j] = b.word(bindingsAt + uint64(i)*bindingBytes + uint64(j)*8).Load()
				}
				entries[i] = bindingEntry{v[0], v[1], v[2], v[3], v[4], v[5] != 0}
			}
			if b.word(blockGen).Load() == gen {
				return gen, entries, true
			}
		}
		switch {
		case tries < entriesYields:
			runtime.Gosched()
			continue
		case tries == entriesYields:
			since = time.Now()
		case time.Since(since) > entriesPatience:
			return gen, nil, false
		}
		time.Sleep(entriesSleep)
	}
}

// claim adds an id to an endpoint that has some. It fails if the endpoint is
// gone, or given up by its owner.
func (b block) claim(nonce uint64) bool {
	for {
		n := b.word(blockAliases).Load()
		if n == 0 || n == math.MaxUint64 || b.word(blockNonce).Load() != nonce || b.word(blockKind).Load()&flagOwned == 0 {
			return false
		}
		if b.word(blockAliases).CompareAndSwap(n, n+1) {
			if b.word(blockNonce).Load() == nonce {
				return true
			}
			b.unclaim() // another endpoint has the block meanwhile
			return false
		}
	}
}

// unclaim takes an id away; the last one frees the block for its owner.
func (b block) unclaim() { b.word(blockAliases).Add(math.MaxUint64) }

// A member is a device's part in a multicast endpoint: the block of its replica.
type member struct {
	device, block, nonce uint64
}

const memberJoined = 1

// member reads member i; it fails before the member was added.
func (b block) member(i int) (member, bool) {
	at := membersAt + uint64(i)*memberBytes
	if b.word(at+24).Load() != memberJoined {
		return member{}, false
	}
	return member{b.word(at).Load(), b.word(at + 8).Load(), b.word(at + 16).Load()}, true
}

// join adds a member as the next one, or as number i if that is not negative. It
// fails if all have been added.
func (b block) join(i int, m member) bool {
	if i < 0 {
		for i = 0; ; i++ {
			if i >= MaxMembers || uint64(i) >= b.word(blockWanted).Load() {
				return false
			}
			if b.word(membersAt+uint64(i)*memberBytes+24).CompareAndSwap(0, 2) {
				break
			}
		}
	} else if uint64(i) >= b.word(blockWanted).Load() || !b.word(membersAt+uint64(i)*memberBytes+24).CompareAndSwap(0, 2) {
		return false
	}
	at := membersAt + uint64(i)*memberBytes
	b.word(at).Store(m.device)
	b.word(at + 8).Store(m.block)
	b.word(at + 16).Store(m.nonce)
	b.word(at + 24).Store(memberJoined)
	b.word(blockJoined).Add(1)
	return true
}
