package fabric

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/mapped"
)

// A shared device is one anonymous file, sealed against resizing: a page that
// says what it is, blocks, and the arena. Every importer maps the whole once, so
// that other memory can be bound behind an endpoint without anything new to hand
// over. Its size is that of the address space; pages are there for what is used.
//
//	0   magic
//	8   device id
//	16  rank, plus 1
//	24  cliques: unicast, multicast; plus 1, 0 for none
//	40  size of the file
//	48  number of blocks
//	64  secret
//
// An allocation is the visible bytes, up to whole pages; a page with the doorbell
// and the head of the shadow; and the shadow, if there is one.
const (
	headBytes   = 96
	headMax     = 64 << 10 // blocks begin here, whatever the page size
	headDevice  = 8
	headRank    = 16
	headCliques = 24
	headSize    = 40
	headBlocks  = 48
	headSecret  = 64

	shadowHeadAt = mapped.BellBytes // in the page of the doorbell
)

var deviceMagic = [8]byte{'w', 'e', 'f', 't', 'd', 'e', 'v', 1}

// sharedBlocks is how many endpoints a shared device has at a time.
const sharedBlocks = 512 + 3584*(math.MaxInt>>62)

type sharedSpace struct {
	bytes  []byte
	nBlock uint64

	// of the owner
	file   *os.File
	mu     sync.Mutex
	unused arena
}

func (s *sharedSpace) blocks() uint64 { return s.nBlock }

func (s *sharedSpace) arenaAt() uint64 {
	return mapped.RoundUp(headMax+s.nBlock*blockBytes, mapped.PageSize())
}

func newSharedSpace(d *device, size uint64) (*sharedSpace, error) {
	size = mapped.RoundUp(size, mapped.PageSize())
	file, err := mapped.NewFile(int64(size))
	if err != nil {
		return nil, fmt.Errorf("fabric: a device of %d bytes: %w", size, err)
	}
	blocks := min(uint64(sharedBlocks), size/4/blockBytes)
	if err = mapped.Allocate(file, 0, headMax); err == nil {
		s := &sharedSpace{nBlock: blocks, file: file}
		if s.bytes, err = mapped.Map(file, int(size), false); err == nil {
			s.unused = newArena(s.arenaAt(), size)
			h := s.bytes
			binary.LittleEndian.PutUint64(h[headDevice:], d.id)
			binary.LittleEndian.PutUint64(h[headRank:], uint64(d.rank+1))
			for i, typ := range []CliqueType{CliqueUnicast, CliqueMulticast} {
				if id, ok := d.cliques[typ]; ok {
					binary.LittleEndian.PutUint64(h[headCliques+8*i:], uint64(id)+1)
				}
			}
			binary.LittleEndian.PutUint64(h[headSize:], size)
			binary.LittleEndian.PutUint64(h[headBlocks:], blocks)
			copy(h[headSecret:], d.secret[:])
			copy(h, deviceMagic[:])
			return s, nil
		}
	}
	file.Close()
	return nil, fmt.Errorf("fabric: a device of %d bytes: %w", size, err)
}

// fileIdentity tells one descriptor's file from another's.
type fileIdentity struct{ dev, ino uint64 }

func identify(file *os.File) (fileIdentity, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return fileIdentity{}, err
	}
	return fileIdentity{uint64(st.Dev), st.Ino}, nil
}

// importShared maps another process's device. Nothing in it is believed.
func importShared(file *os.File) (*device, error) {
	size, err := mapped.SealedSize(file)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", transport.ErrHandle, err)
	}
	var h [headBytes]byte
	if _, err := file.ReadAt(h[:], 0); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("no device")
		}
		return nil, fmt.Errorf("%w: %w", transport.ErrHandle, err)
	}
	blocks := binary.LittleEndian.Uint64(h[headBlocks:])
	rank := binary.LittleEndian.Uint64(h[headRank:])
	switch {
	case !bytes.Equal(h[:8], deviceMagic[:]):
		return nil, fmt.Errorf("%w: not a device", transport.ErrHandle)
	case size < minArena || size > math.MaxInt/2 || uint64(size) != binary.LittleEndian.Uint64(h[headSize:]) ||
		uint64(size)%mapped.PageSize() != 0 || blocks > sharedBlocks || blocks > uint64(size)/4/blockBytes || rank > math.MaxInt32:
		return nil, fmt.Errorf("%w: a device of %d bytes and %d blocks", transport.ErrHandle, size, blocks)
	}
	d := &device{id: binary.LittleEndian.Uint64(h[headDevice:]), rank: int(rank) - 1, cliques: map[CliqueType]uint32{}}
	copy(d.secret[:], h[headSecret:])
	for i, typ := range []CliqueType{CliqueUnicast, CliqueMulticast} {
		if id := binary.LittleEndian.Uint64(h[headCliques+8*i:]); id != 0 {
			d.cliques[typ] = uint32(id - 1)
		}
	}
	s := &sharedSpace{nBlock: blocks}
	if s.bytes, err = mapped.Map(file, int(size), false); err != nil {
		if !errors.Is(err, unix.ENOMEM) { // read-only, for one
			err = fmt.Errorf("%w: %w", transport.ErrHandle, err)
		}
		return nil, err
	}
	d.space = s
	return d, nil
}

func (s *sharedSpace) block(i uint64) (block, bool) {
	if i >= s.nBlock {
		return nil, false
	}
	at := headMax + i*blockBytes
	return block(s.bytes[at : at+blockBytes : at+blockBytes]), true
}

// layout returns where the doorbell's page of an allocation is, and its end.
func layout(size uint64, shadowed bool) (bell, end uint64) {
	bell = mapped.RoundUp(size, mapped.PageSize())
	end = bell + mapped.PageSize()
	if shadowed {
		end += mapped.RoundUp(shadowBytes(size), mapped.PageSize())
	}
	return bell, end
}

func (s *sharedSpace) alloc(size uint64, shadowed bool) (uint64, error) {
	_, end := layout(size, shadowed)
	s.mu.Lock()
	defer s.mu.Unlock()
	ref, ok := s.unused.take(end)
	if !ok {
		return 0, fmt.Errorf("fabric: %d bytes: the arena of %d bytes has no room: %w", size, len(s.bytes), unix.ENOMEM)
	}
	if err := mapped.Allocate(s.file, int64(ref), int64(end)); err != nil {
		_ = mapped.Release(s.file, int64(ref), int64(end))
		s.unused.give(ref, end)
		return 0, fmt.Errorf("fabric: %d bytes of shared memory: %w", size, err)
	}
	mapped.Populate(s.bytes[ref : ref+end])
	return ref, nil
}

func (s *sharedSpace) free(ref, size uint64, shadowed bool) error {
	_, end := layout(size, shadowed)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := mapped.Release(s.file, int64(ref), int64(end)); err != nil {
		return fmt.Errorf("fabric: give %d bytes of shared memory back: %w", size, err)
	}
	s.unused.give(ref, end)
	return nil
}

func (s *sharedSpace) region(ref, size uint64, shadowed bool) (region, bool) {
	total := uint64(len(s.bytes))
	if ref < s.arenaAt() || ref%mapped.PageSize() != 0 || ref > total || size == 0 || size > total {
		return region{}, false
	}
	bell, end := layout(size, shadowed)
	if end > total-ref {
		return region{}, false
	}
	b := s.bytes[ref : ref+end]
	r := region{data: b[:size:size], bell: mapped.SharedBell(b, bell)}
	if shadowed {
		head := bell + shadowHeadAt
		units := bell + mapped.PageSize()
		r.shadow = newShadow(b[head:head+shadowHeadBytes], b[units:units+shadowBytes(size)])
	}
	return r, true
}

func (s *sharedSpace) populate(r region) { mapped.Populate(r.data) }

func (s *sharedSpace) export(x *transport.Exported) error {
	if s.file == nil {
		return transport.ErrNotOwner
	}
	f, err := mapped.Duplicate(s.file)
	if err != nil {
		return fmt.Errorf("fabric: %w", err)
	}
	x.File = f
	return nil
}

func (s *sharedSpace) close() error { return mapped.Unmap(s.bytes) }

func (s *sharedSpace) release() error { return errors.Join(mapped.Unmap(s.bytes), s.file.Close()) }

// newShared makes a space of the size that was asked for, or, if that is 0, of the
// largest default that the system grants: limits on address space and on the size of
// files can be below it.
func newShared(d *device, size uint64) (ownSpace, error) {
	if size != 0 {
		return newSharedSpace(d, size)
	}
	size = grantedBy(unix.RLIMIT_AS, 8, grantedBy(unix.RLIMIT_FSIZE, 1, defaultArena))
	for {
		s, err := newSharedSpace(d, size)
		if err == nil {
			return s, nil
		}
		if size /= 2; size < leastDefault || !errors.Is(err, unix.ENOMEM) && !errors.Is(err, unix.EFBIG) && !errors.Is(err, unix.EINVAL) {
			return nil, err
		}
	}
}

// grantedBy halves a default size, leastDefault at least, until so many of it are
// within a limit of the process. A file above its limit is a signal and not only an
// error; and of address space others need some too, the arenas of peers first.
func grantedBy(resource int, times, size uint64) uint64 {
	var l unix.Rlimit
	if unix.Getrlimit(resource, &l) != nil {
		return size
	}
	for size/2 >= leastDefault && size > uint64(l.Cur)/times {
		size /= 2
	}
	return size
}
