package pointer

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weft-go/weft/transport"
)

// Shared memory is one anonymous file: the visible bytes, rounded up to whole
// pages, then one page with the doorbell's words.
const (
	bellSeqOffset   = 0
	bellArmedOffset = 64 // a line of its own: pollers of one don't disturb the other
)

// seals keep the file's size as it is: a peer can't make us fault by shrinking it.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

type sharedBacking struct {
	file   *os.File // owner only
	mapped []byte
}

func pageSize() uint64 { return uint64(os.Getpagesize()) }

func newSharedMemory(size uint64) (*memory, error) {
	if err := checkSize(size); err != nil {
		return nil, err
	}
	visible := roundUp(size, pageSize())
	fd, err := createFile()
	if err != nil {
		return nil, fmt.Errorf("pointer: anonymous shared memory (memfd_create): %w", err)
	}
	file := os.NewFile(uintptr(fd), "weft")
	total := int64(visible + pageSize())
	if err = allocate(fd, total); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("pointer: %d bytes of shared memory: %w", total, err)
	}
	return mapShared(file, visible, true)
}

// createFile makes an anonymous file that can be sealed. Some systems refuse
// files that could be executed, and older ones don't know the flag that says no.
func createFile() (int, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("weft", flags|unix.MFD_NOEXEC_SEAL)
	if err == unix.EINVAL {
		fd, err = unix.MemfdCreate("weft", flags)
	}
	return fd, err
}

// allocateStep is what one call allocates. A signal makes the call undo its work
// and fail: the time it takes must be short next to that between the ticks of a
// profiler.
const allocateStep = 4 << 20

// allocate gives the file its pages now, so that want of memory is an error here
// instead of a fault in the middle of a collective.
func allocate(fd int, total int64) error {
	for done := int64(0); done < total; {
		n := min(allocateStep, total-done)
		switch err := unix.Fallocate(fd, 0, done, n); err {
		case nil:
			done += n
		case unix.EINTR:
		default:
			return err
		}
	}
	return nil
}

// checkInstalled refuses sizes beyond the memory and swap of the machine. The
// kernel would try, and kill somebody.
func checkInstalled(size uint64) error {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return nil // then it is not known
	}
	if size > (uint64(info.Totalram)+uint64(info.Totalswap))*uint64(info.Unit) {
		return unix.ENOMEM
	}
	return nil
}

// importSharedMemory maps memory of another process. It checks what it was
// given: the handle's sizes against the file, and the seals.
func importSharedMemory(x transport.Exported, h handle) (*memory, error) {
	if x.File == nil {
		return nil, fmt.Errorf("%w: no descriptor came with it (limit on open files?)", transport.ErrHandle)
	}
	st, err := x.File.Stat()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", transport.ErrHandle, err)
	}
	got, err := unix.FcntlInt(x.File.Fd(), unix.F_GET_SEALS, 0)
	if err != nil || got&seals != seals {
		return nil, fmt.Errorf("%w: the descriptor is not sealed memory", transport.ErrHandle)
	}
	// The handle's size is at most maxMemory: no sum here overflows, except that
	// an int may have 32 bits.
	if h.memSize%pageSize() != 0 || h.memSize > math.MaxInt/2 || uint64(st.Size()) != h.memSize+pageSize() {
		return nil, fmt.Errorf("%w: %d bytes behind the descriptor, handle says %d", transport.ErrHandle, st.Size(), h.memSize)
	}
	m, err := mapShared(x.File, h.memSize, false)
	if err != nil && !errors.Is(err, unix.ENOMEM) { // read-only, for one
		err = fmt.Errorf("%w: %w", transport.ErrHandle, err)
	}
	return m, err
}

func mapShared(file *os.File, visible uint64, owner bool) (*memory, error) {
	// Populated: a first touch in the hot path costs ten times as much.
	b, err := unix.Mmap(int(file.Fd()), 0, int(visible+pageSize()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		if owner {
			file.Close()
		}
		return nil, fmt.Errorf("pointer: map %d bytes of shared memory: %w", visible, err)
	}
	back := &sharedBacking{mapped: b}
	if owner {
		back.file = file
	}
	return &memory{
		kind: sharedMemory,
		data: b[:visible:visible],
		bell: &futexBell{seq: word32(b, visible+bellSeqOffset), armed: word32(b, visible+bellArmedOffset)},
		back: back,
	}, nil
}

func (s *sharedBacking) export(x *transport.Exported) error {
	if s.file == nil {
		return transport.ErrNotOwner
	}
	fd, err := unix.FcntlInt(s.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("pointer: duplicate descriptor: %w", err)
	}
	x.File = os.NewFile(uintptr(fd), "weft")
	return nil
}

func (s *sharedBacking) free() error {
	if s.mapped == nil {
		return nil
	}
	err := unix.Munmap(s.mapped)
	s.mapped = nil
	if s.file != nil {
		if cerr := s.file.Close(); err == nil {
			err = cerr
		}
	}
	return err
}

// futexBell is a doorbell between processes.
type futexBell struct {
	seq   *atomic.Uint32 // counts rings
	armed *atomic.Uint32 // goroutines of the owner that sleep or are about to
}

func (b *futexBell) Arm() uint32 {
	b.armed.Add(1)
	return b.seq.Load()
}

func (b *futexBell) Disarm() { b.armed.Add(^uint32(0)) }

func (b *futexBell) Sleep(ticket uint32, timeout time.Duration) {
	ts := unix.NsecToTimespec(int64(timeout))
	// Not FUTEX_PRIVATE: the other side is another process. Every outcome (woken,
	// changed, timed out, interrupted) means the same: look again.
	syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(b.seq)), futexWait, uintptr(ticket), uintptr(unsafe.Pointer(&ts)), 0, 0)
}

func (b *futexBell) Ring() {
	b.seq.Add(1)
	// Waking never blocks, so the scheduler need not know.
	syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(b.seq)), futexWake, math.MaxInt32, 0, 0, 0)
}

func (b *futexBell) ringIfArmed() {
	if b.armed.Load() != 0 {
		b.Ring()
	}
}

const (
	futexWait = 0
	futexWake = 1
)
