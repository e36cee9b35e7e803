package mapped

import (
	"math"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The words of a shared bell.
const (
	bellSeqOffset   = 0
	bellArmedOffset = 64 // a line of its own: pollers of one don't disturb the other

	// BellBytes is what a shared bell takes.
	BellBytes = 128
)

// futexBell is a doorbell between processes.
type futexBell struct {
	seq   *atomic.Uint32 // counts rings
	armed *atomic.Uint32 // goroutines of the owner that sleep or are about to
}

// SharedBell returns the doorbell whose words are the [BellBytes] bytes at
// offset of shared memory, zero at first.
func SharedBell(b []byte, offset uint64) Bell {
	return &futexBell{seq: Word32(b, offset+bellSeqOffset), armed: Word32(b, offset+bellArmedOffset)}
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

func (b *futexBell) RingIfArmed() {
	if b.armed.Load() != 0 {
		b.Ring()
	}
}

const (
	futexWait = 0
	futexWake = 1
)
