package cuda

import "unsafe"

// HandleType is a CUmemAllocationHandleType: how memory can be shared with other processes.
type HandleType uint32

// Kinds of handles, which may be combined.
const (
	HandleNone   HandleType = 0
	HandlePOSIX  HandleType = 1 // a file descriptor
	HandleFabric HandleType = 8 // 64 bytes, which other hosts of an NVLink fabric understand too
)

// FabricHandle is a CUmemFabricHandle.
type FabricHandle [64]byte

// Memory is an amount of a device's memory, without an address: mapping it gives
// it one, or several. It is a plain value: a copy is the same memory.
type Memory struct {
	driver *Driver
	handle uint64
}

const (
	memLocationDevice   = 1
	memAllocationPinned = 1
	memGranularity      = 1 // CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
	memReadWrite        = 3
)

// memLocation is a CUmemLocation.
type memLocation struct {
	kind int32
	id   int32
}

// memProp is a CUmemAllocationProp.
type memProp struct {
	kind          int32
	handleTypes   HandleType
	location      memLocation
	win32Meta     uintptr
	compression   uint8
	gpuDirectRDMA uint8
	usage         uint16
	reserved      [4]uint8
}

// memAccess is a CUmemAccessDesc.
type memAccess struct {
	location memLocation
	flags    uint32
}

func (dev *Device) memLocation() memLocation {
	return memLocation{kind: memLocationDevice, id: dev.handle}
}

func (dev *Device) memProp(share HandleType) *memProp {
	return &memProp{kind: memAllocationPinned, handleTypes: share, location: dev.memLocation()}
}

// Granularity is what sizes of memory and its mappings are multiples of.
func (dev *Device) Granularity(share HandleType) (int, error) {
	n := new(uintptr)
	err := dev.driver.call(fnMemGetAllocationGranularity, uintptr(unsafe.Pointer(n)), uintptr(unsafe.Pointer(dev.memProp(share))), memGranularity)
	return int(*n), err
}

// NewMemory allocates memory on the device that can be shared by the given
// handles. bytes is a multiple of the granularity.
func (dev *Device) NewMemory(bytes int, share HandleType) (Memory, error) {
	if bytes <= 0 {
		return Memory{}, invalid("cuMemCreate", "%d bytes", bytes)
	}
	h := new(uint64)
	err := dev.driver.call(fnMemCreate, uintptr(unsafe.Pointer(h)), uintptr(bytes), uintptr(unsafe.Pointer(dev.memProp(share))), 0)
	return Memory{dev.driver, *h}, err
}

// Release gives the memory up. It is freed once it is mapped nowhere any more,
// in no process, and no descriptor of it is open.
func (m Memory) Release() error { return m.driver.call(fnMemRelease, uintptr(m.handle)) }

// Shares returns the handles that the memory was made for, and the ordinal of its device.
func (m Memory) Shares() (share HandleType, device int, err error) {
	p := new(memProp)
	err = m.driver.call(fnMemGetAllocationPropertiesFromHandle, uintptr(unsafe.Pointer(p)), uintptr(m.handle))
	return p.handleTypes, int(p.location.id), err
}

// ExportFD returns a descriptor of the memory, which the caller closes.
func (m Memory) ExportFD() (int, error) {
	fd := new(int32)
	err := m.driver.call(fnMemExportToShareableHandle, uintptr(unsafe.Pointer(fd)), uintptr(m.handle), uintptr(HandlePOSIX), 0)
	return int(*fd), err
}

// ExportFabric returns a handle of the memory for the hosts of a fabric.
func (m Memory) ExportFabric() (FabricHandle, error) {
	h := new(FabricHandle)
	err := m.driver.call(fnMemExportToShareableHandle, uintptr(unsafe.Pointer(h)), uintptr(m.handle), uintptr(HandleFabric), 0)
	return *h, err
}

// ImportFD is the memory behind a descriptor, which remains the caller's to close.
func (d *Driver) ImportFD(fd int) (Memory, error) {
	if fd < 0 {
		return Memory{}, invalid("cuMemImportFromShareableHandle", "descriptor %d", fd)
	}
	h := new(uint64)
	err := d.call(fnMemImportFromShareableHandle, uintptr(unsafe.Pointer(h)), uintptr(fd), uintptr(HandlePOSIX))
	return Memory{d, *h}, err
}

// ImportFabric is the memory behind another host's handle.
func (d *Driver) ImportFabric(handle FabricHandle) (Memory, error) {
	h := new(uint64)
	err := d.call(fnMemImportFromShareableHandle, uintptr(unsafe.Pointer(h)), uintptr(unsafe.Pointer(&handle)), uintptr(HandleFabric))
	return Memory{d, *h}, err
}

// MemoryAt is the memory mapped at an address, to be released like new memory.
func (d *Driver) MemoryAt(p Ptr) (Memory, error) {
	h := new(uint64)
	err := d.call(fnMemRetainAllocationHandle, uintptr(unsafe.Pointer(h)), uintptr(p))
	return Memory{d, *h}, err
}

// Reserve reserves addresses, without memory. bytes is a multiple of the
// granularity, and so is alignment, or 0.
func (d *Driver) Reserve(bytes, alignment int) (Ptr, error) {
	if bytes <= 0 || alignment < 0 {
		return 0, invalid("cuMemAddressReserve", "%d bytes aligned to %d", bytes, alignment)
	}
	p := new(Ptr)
	err := d.call(fnMemAddressReserve, uintptr(unsafe.Pointer(p)), uintptr(bytes), uintptr(alignment), 0, 0)
	return *p, err
}

// Unreserve gives all of what Reserve has reserved back. Nothing is mapped there any more.
func (d *Driver) Unreserve(p Ptr, bytes int) error {
	return d.call(fnMemAddressFree, uintptr(p), uintptr(bytes))
}

// Map gives the memory reserved addresses. No device reaches it there before [Driver.SetAccess].
func (d *Driver) Map(p Ptr, bytes int, m Memory) error {
	return d.call(fnMemMap, uintptr(p), uintptr(bytes), 0, uintptr(m.handle), 0)
}

// Unmap takes the memory away from its addresses. The work that uses it there must be done.
func (d *Driver) Unmap(p Ptr, bytes int) error {
	return d.call(fnMemUnmap, uintptr(p), uintptr(bytes))
}

// SetAccess lets devices read and write mapped memory.
func (d *Driver) SetAccess(p Ptr, bytes int, devices ...*Device) error {
	if len(devices) == 0 {
		return nil
	}
	access := make([]memAccess, len(devices))
	for i, dev := range devices {
		access[i] = memAccess{location: dev.memLocation(), flags: memReadWrite}
	}
	return d.call(fnMemSetAccess, uintptr(p), uintptr(bytes), uintptr(unsafe.Pointer(&access[0])), uintptr(len(access)))
}
