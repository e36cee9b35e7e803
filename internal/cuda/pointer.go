package cuda

import "unsafe"

// PointerInfo is what the driver knows about an address.
type PointerInfo struct {
	Kind     MemoryKind
	Device   int    // ordinal, -1 where there is none
	Base     Ptr    // where its allocation begins,
	Bytes    int    // and how long it is
	BufferID uint64 // another for each allocation of the process, never used again
	IPC      bool   // whether [Context.IPCHandle] takes it
	Managed  bool
}

// MemoryKind is a CUmemorytype.
type MemoryKind uint32

// Kinds of memory. The driver knows nothing of the rest, which is the host's.
const (
	MemoryUnknown MemoryKind = 0
	MemoryHost    MemoryKind = 1
	MemoryDevice  MemoryKind = 2
)

const (
	pointerMemoryType    = 2
	pointerBufferID      = 7
	pointerManaged       = 8
	pointerDeviceOrdinal = 9
	pointerIPC           = 10
	pointerRangeStart    = 11
	pointerRangeSize     = 12
)

// pointerQuery is a call of cuPointerGetAttributes.
type pointerQuery struct {
	attributes [7]uint32
	data       [7]unsafe.Pointer

	kind    uint32
	id      uint64
	managed uint8
	device  int32
	ipc     uint8
	start   Ptr
	size    uintptr
}

// Pointer asks what an address is. One that the driver does not know has [MemoryUnknown] and is no error.
func (d *Driver) Pointer(p Ptr) (PointerInfo, error) {
	q := &pointerQuery{device: -1}
	for i, a := range []struct {
		attribute uint32
		data      unsafe.Pointer
	}{
		{pointerMemoryType, unsafe.Pointer(&q.kind)},
		{pointerBufferID, unsafe.Pointer(&q.id)},
		{pointerManaged, unsafe.Pointer(&q.managed)},
		{pointerDeviceOrdinal, unsafe.Pointer(&q.device)},
		{pointerIPC, unsafe.Pointer(&q.ipc)},
		{pointerRangeStart, unsafe.Pointer(&q.start)},
		{pointerRangeSize, unsafe.Pointer(&q.size)},
	} {
		q.attributes[i], q.data[i] = a.attribute, a.data
	}
	err := d.call(fnPointerGetAttributes, uintptr(len(q.data)), uintptr(unsafe.Pointer(&q.attributes)), uintptr(unsafe.Pointer(&q.data)), uintptr(p))
	return PointerInfo{
		Kind:     MemoryKind(q.kind),
		Device:   int(q.device),
		Base:     q.start,
		Bytes:    int(q.size),
		BufferID: q.id,
		IPC:      q.ipc != 0,
		Managed:  q.managed != 0,
	}, err
}

// AddressRange returns the allocation or mapping that an address lies in.
func (c *Context) AddressRange(p Ptr) (base Ptr, bytes int, err error) {
	v := new([2]uintptr)
	err = c.call(fnMemGetAddressRange, uintptr(unsafe.Pointer(&v[0])), uintptr(unsafe.Pointer(&v[1])), uintptr(p))
	return Ptr(v[0]), int(v[1]), err
}
