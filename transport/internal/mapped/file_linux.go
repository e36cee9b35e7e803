package mapped

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// seals keep the file's size as it is: a peer can't make us fault by shrinking it.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// ErrUnsealed: the descriptor is not sealed memory.
var ErrUnsealed = errors.New("the descriptor is not sealed memory")

// PageSize is the unit of what is mapped.
func PageSize() uint64 { return uint64(os.Getpagesize()) }

// NewFile returns an anonymous file of total bytes that can't change its size. It
// has no pages yet; see [Allocate].
func NewFile(total int64) (*os.File, error) {
	fd, err := createFile()
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), "weft")
	if err = unix.Ftruncate(fd, total); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
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

// Allocate gives n bytes at offset of the file their pages now, so that want of
// memory is an error here instead of a fault in the middle of a collective.
func Allocate(file *os.File, offset, n int64) error {
	for done := int64(0); done < n; {
		step := min(allocateStep, n-done)
		switch err := unix.Fallocate(int(file.Fd()), 0, offset+done, step); err {
		case nil:
			done += step
		case unix.EINTR:
		default:
			return err
		}
	}
	return nil
}

// Release takes the pages of n bytes at offset of the file away; they are zero
// when they are used again.
func Release(file *os.File, offset, n int64) error {
	for {
		err := unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, offset, n)
		if err != unix.EINTR {
			return err
		}
	}
}

// SealedSize returns the size of a file that came from another process, which
// must be sealed.
func SealedSize(file *os.File) (int64, error) {
	st, err := file.Stat()
	if err != nil {
		return 0, err
	}
	got, err := unix.FcntlInt(file.Fd(), unix.F_GET_SEALS, 0)
	if err != nil || got&seals != seals {
		return 0, ErrUnsealed
	}
	return st.Size(), nil
}

// Map maps the first n bytes of the file. Populated memory has all its pages
// mapped: a first touch in the hot path costs ten times as much.
func Map(file *os.File, n int, populate bool) ([]byte, error) {
	b, err := mapFile(file, n)
	if err == nil && populate {
		Populate(b)
	}
	return b, err
}

// largePage is the size of large pages, and what they are aligned to in the file and in
// memory, where pages have 4 KiB. Elsewhere there are none here.
const largePage = 2 << 20

// mapFile maps n bytes so that large pages of the file can be mapped as such.
func mapFile(file *os.File, n int) ([]byte, error) {
	if n < largePage {
		p, err := unix.MmapPtr(int(file.Fd()), 0, nil, uintptr(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return nil, err
		}
		return unsafe.Slice((*byte)(p), n), nil
	}
	// More than is needed, and what is too much goes back.
	size := RoundUp(uint64(n), PageSize())
	room, err := unix.MmapPtr(-1, 0, nil, uintptr(size+largePage), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	before := -uint64(uintptr(room)) % largePage
	at := unsafe.Add(room, before)
	p, err := unix.MmapPtr(int(file.Fd()), 0, at, uintptr(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
	if err != nil {
		unix.MunmapPtr(room, uintptr(size+largePage))
		return nil, err
	}
	if before > 0 {
		unix.MunmapPtr(room, uintptr(before))
	}
	unix.MunmapPtr(unsafe.Add(at, size), uintptr(largePage-before))
	return unsafe.Slice((*byte)(p), n), nil
}

// Enlarge gives a file that has no pages yet large ones where they fit, and says whether
// the system had them all. b is the whole file, mapped. Processors look fewer of them up, and
// the kernel is done with them sooner. Nothing is lost where there are none.
func Enlarge(file *os.File, b []byte) bool {
	n := len(b) / largePage * largePage
	for at := 0; at < n; at += largePage {
		// One page is what there must be; the others around it come as zeros.
		if Allocate(file, int64(at), int64(PageSize())) != nil {
			return false
		}
	}
	return n > 0 && unix.Madvise(b[:n], unix.MADV_COLLAPSE) == nil
}

// Populate maps the pages of b, which was mapped and allocated. They can be written
// to then without a fault of their own: the file is shared. It is as if they were read,
// not written, because the kernel maps many pages around one that is read, which takes
// a third of the time.
func Populate(b []byte) {
	if len(b) == 0 || unix.Madvise(b, unix.MADV_POPULATE_READ) == nil {
		return
	}
	for page := PageSize(); uint64(len(b)) >= 8; b = b[min(page, uint64(len(b))):] {
		Word(b, 0).Load() // on systems without that advice
	}
}

// Unmap gives back what Map returned.
func Unmap(b []byte) error {
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)))
}

// Duplicate returns another descriptor of the file.
func Duplicate(file *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), "weft"), nil
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
