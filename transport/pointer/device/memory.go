package device

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/weft-go/weft/internal/cuda"
)

// Memory is memory of some device, as one rank has it: its own, or a peer's that it imported.
type Memory struct {
	Ptr   cuda.Ptr // where this rank's device has it
	Bytes int

	device   *Device
	whole    *whole
	offset   int // of Ptr in whole
	imported bool
	released atomic.Bool
}

// whole is an allocation, of which a Memory may be a part. The ranks of one process share it.
type whole struct {
	source source
	owner  *Device
	base   cuda.Ptr
	bytes  int
	handle cuda.Memory    // of mapped memory
	ipc    cuda.IPCHandle // of allocated memory

	mu    sync.Mutex
	users int // ranks of this process that have it
}

// source is how a process came to an allocation, which says what undoes that.
type source uint32

const (
	sourceMade   source = iota + 1 // Alloc: a mapping of ours
	sourceMapped                   // another library's mapping
	sourceAlloc                    // another library's cudaMalloc
	sourceFD                       // a mapping of a descriptor's memory
	sourceIPC                      // an opened IPC handle
)

// Alloc allocates zeroed memory on the device, rounded up to the granularity.
func (d *Device) Alloc(bytes int) (*Memory, error) {
	if bytes <= 0 || bytes > maxBytes {
		return nil, fmt.Errorf("%w: %d bytes", cuda.ErrInvalid, bytes)
	}
	size := d.RoundUp(bytes)
	handle, err := d.Context.Device().NewMemory(size, cuda.HandlePOSIX)
	if err != nil {
		return nil, err
	}
	base, err := d.mapped(handle, size)
	if err != nil {
		return nil, errors.Join(err, handle.Release())
	}
	w := &whole{source: sourceMade, owner: d, base: base, bytes: size, handle: handle, users: 1}
	err = d.Context.Fill8(base, 0, size)
	if err == nil {
		err = d.Context.Synchronize()
	}
	if err != nil {
		return nil, errors.Join(err, w.drop(d))
	}
	return &Memory{Ptr: base, Bytes: bytes, device: d, whole: w}, nil
}

// mapped gives memory an address where this device reaches it.
func (d *Device) mapped(handle cuda.Memory, size int) (cuda.Ptr, error) {
	driver := d.Context.Driver()
	p, err := driver.Reserve(size, d.granularity)
	if err != nil {
		return 0, err
	}
	if err = driver.Map(p, size, handle); err == nil {
		if err = driver.SetAccess(p, size, d.Context.Device()); err == nil {
			return p, nil
		}
		err = errors.Join(err, driver.Unmap(p, size))
	}
	return 0, errors.Join(err, driver.Unreserve(p, size))
}

// Adopt is for memory of this device that another library has allocated. It
// stays that library's, which must not free it before [Memory.Release].
func (d *Device) Adopt(p cuda.Ptr, bytes int) (*Memory, error) {
	if p == 0 || bytes <= 0 || bytes > maxBytes {
		return nil, fmt.Errorf("%w: %d bytes at %#x", cuda.ErrInvalid, bytes, p)
	}
	info, err := d.Context.Driver().Pointer(p)
	if err != nil {
		return nil, err
	}
	switch {
	case info.Kind != cuda.MemoryDevice || info.Managed:
		return nil, fmt.Errorf("%w: %#x is not memory of a device", ErrShare, p)
	case info.Device != d.Context.Device().Ordinal():
		return nil, fmt.Errorf("%w: %#x is memory of device %d, this rank has device %d", ErrShare, p, info.Device, d.Context.Device().Ordinal())
	}
	base, size, err := d.Context.AddressRange(p)
	if err != nil {
		return nil, err
	}
	if p < base || uintptr(bytes) > uintptr(base)+uintptr(size)-uintptr(p) {
		return nil, fmt.Errorf("%w: %d bytes at %#x, where %d are allocated at %#x", cuda.ErrInvalid, bytes, p, size, base)
	}
	w := &whole{source: sourceAlloc, owner: d, base: base, bytes: size, users: 1}
	if info.IPC {
		w.ipc, err = d.Context.IPCHandle(base)
		if err != nil {
			return nil, err
		}
	} else if err = w.adoptMapping(); err != nil {
		return nil, fmt.Errorf("%w: %#x is neither from cudaMalloc nor mapped memory with descriptors: %w", ErrShare, p, err)
	}
	return &Memory{Ptr: p, Bytes: bytes, device: d, whole: w, offset: int(p - base)}, nil
}

// adoptMapping takes hold of the memory behind another library's mapping.
func (w *whole) adoptMapping() error {
	handle, err := w.owner.Context.Driver().MemoryAt(w.base)
	if err != nil {
		return err
	}
	share, _, err := handle.Shares()
	if err == nil && share&cuda.HandlePOSIX == 0 {
		err = errors.New("it was not made for descriptors")
	}
	if err != nil {
		return errors.Join(err, handle.Release())
	}
	w.source, w.handle = sourceMapped, handle
	return nil
}

// Release gives the memory up on this rank. The device's work that uses it must
// be done. A second Release does nothing.
func (m *Memory) Release() error {
	if m == nil || m.released.Swap(true) {
		return nil
	}
	return m.whole.drop(m.device)
}

// drop ends the use by one rank. What came by IPC is counted by the driver, per
// device: all else goes with the last rank of this process.
func (w *whole) drop(d *Device) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.users--
	if w.users > 0 {
		return nil
	}
	driver := d.Context.Driver()
	switch w.source {
	case sourceMade, sourceFD:
		return errors.Join(driver.Unmap(w.base, w.bytes), driver.Unreserve(w.base, w.bytes), w.handle.Release())
	case sourceMapped:
		return w.handle.Release()
	case sourceIPC:
		return d.Context.CloseIPC(w.base)
	}
	return nil
}

// Export is memory on its way to a peer. The file is the exporter's to close once
// it has been sent, and the importer's once it has been imported.
type Export struct {
	Data []byte
	File *os.File // between processes, of memory that goes by descriptor
	Ref  any      // in one process
}

// Export makes the memory ready to be imported by peers, in this process or in others.
func (m *Memory) Export(inProcess bool) (Export, error) {
	if m.imported {
		return Export{}, fmt.Errorf("%w: it is a peer's", ErrShare)
	}
	w := m.whole
	x := export{bytes: m.Bytes, offset: m.offset, whole: w.bytes, uuid: m.device.UUID}
	if inProcess {
		x.kind = kindRef
		return Export{Data: x.encode(), Ref: m}, nil
	}
	switch w.source {
	case sourceMade, sourceMapped:
		fd, err := w.handle.ExportFD()
		if err != nil {
			return Export{}, err
		}
		x.kind = kindFD
		return Export{Data: x.encode(), File: os.NewFile(uintptr(fd), "device memory")}, nil
	}
	x.kind, x.ipc = kindIPC, w.ipc
	return Export{Data: x.encode()}, nil
}

// Import lets this rank's device reach a peer's memory.
func (d *Device) Import(from Export) (*Memory, error) {
	x, err := decodeExport(from.Data)
	if err != nil {
		return nil, err
	}
	if err := d.reach(x.uuid); err != nil {
		return nil, err
	}
	m := &Memory{Bytes: x.bytes, device: d, offset: x.offset, imported: true}
	switch x.kind {
	case kindRef:
		owner, ok := from.Ref.(*Memory)
		if !ok || owner == nil || owner.Bytes != x.bytes {
			return nil, fmt.Errorf("%w: not of this process", ErrExport)
		}
		m.whole, err = d.join(owner)
	case kindFD:
		m.whole, err = d.importFD(from.File, x)
	default:
		m.whole, err = d.importIPC(x)
	}
	if err != nil {
		return nil, err
	}
	m.Ptr = m.whole.base + cuda.Ptr(x.offset)
	return m, nil
}

// join has this device reach memory of another rank of this process, at the same address.
func (d *Device) join(owner *Memory) (*whole, error) {
	w := owner.whole
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users == 0 {
		return nil, fmt.Errorf("%w: it was released", ErrExport)
	}
	var err error
	switch {
	case d.UUID == owner.device.UUID:
	case w.source == sourceAlloc:
		err = d.Context.EnablePeer(owner.device.Context)
	default:
		err = d.Context.Driver().SetAccess(w.base, w.bytes, d.Context.Device())
	}
	if err != nil {
		return nil, err
	}
	w.users++
	return w, nil
}

func (d *Device) importFD(file *os.File, x export) (*whole, error) {
	if file == nil {
		return nil, fmt.Errorf("%w: no descriptor came with it (limit on open files?)", ErrExport)
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	var handle cuda.Memory
	if cerr := raw.Control(func(fd uintptr) { handle, err = d.Context.Driver().ImportFD(int(fd)) }); cerr != nil {
		return nil, cerr
	}
	if err != nil {
		return nil, err
	}
	base, err := d.mapped(handle, x.whole)
	if err != nil {
		return nil, errors.Join(err, handle.Release())
	}
	return &whole{source: sourceFD, owner: d, base: base, bytes: x.whole, handle: handle, users: 1}, nil
}

func (d *Device) importIPC(x export) (*whole, error) {
	base, err := d.Context.OpenIPC(x.ipc)
	if err != nil {
		return nil, err
	}
	return &whole{source: sourceIPC, owner: d, base: base, bytes: x.whole, users: 1}, nil
}
