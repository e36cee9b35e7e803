package cuda

import "unsafe"

const (
	hostPortable = 1
	hostMapped   = 2
)

// HostMemory is memory on the host that all devices reach while the CPU uses it.
type HostMemory struct {
	Bytes  []byte // as the CPU sees it; not Go's memory
	Device Ptr    // as devices see it

	context *Context
}

// AllocHost allocates memory on the host that all devices reach.
func (c *Context) AllocHost(bytes int) (*HostMemory, error) {
	if bytes <= 0 {
		return nil, invalid("cuMemHostAlloc", "%d bytes", bytes)
	}
	p := new(*byte)
	if err := c.call(fnMemHostAlloc, uintptr(unsafe.Pointer(p)), uintptr(bytes), hostPortable|hostMapped); err != nil {
		return nil, err
	}
	m := &HostMemory{Bytes: unsafe.Slice(*p, bytes), context: c}
	if err := m.look(); err != nil {
		_ = c.call(fnMemFreeHost, uintptr(unsafe.Pointer(*p)))
		return nil, err
	}
	return m, nil
}

// Free frees what AllocHost has allocated.
func (m *HostMemory) Free() error {
	return m.context.call(fnMemFreeHost, uintptr(unsafe.Pointer(&m.Bytes[0])))
}

// RegisterHost lets all devices reach memory on the host that somebody else
// allocated, outside Go's heap: a mapping, say. It must stay mapped until [HostMemory.Unregister].
func (c *Context) RegisterHost(b []byte) (*HostMemory, error) {
	if len(b) == 0 {
		return nil, invalid("cuMemHostRegister", "no bytes")
	}
	if err := c.call(fnMemHostRegister, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), hostPortable|hostMapped); err != nil {
		return nil, err
	}
	m := &HostMemory{Bytes: b, context: c}
	if err := m.look(); err != nil {
		_ = m.Unregister()
		return nil, err
	}
	return m, nil
}

// Unregister ends what RegisterHost began.
func (m *HostMemory) Unregister() error {
	return m.context.call(fnMemHostUnregister, uintptr(unsafe.Pointer(&m.Bytes[0])))
}

// look finds where devices see the memory.
func (m *HostMemory) look() error {
	return m.context.call(fnMemHostGetDevicePointer, uintptr(unsafe.Pointer(&m.Device)), uintptr(unsafe.Pointer(&m.Bytes[0])), 0)
}
