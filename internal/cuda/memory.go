package cuda

import "unsafe"

// Ptr is an address in memory that devices reach: on a device, or on the host
// as a device sees it.
type Ptr uintptr

// Alloc allocates memory on the device, aligned to 256 bytes at least.
func (c *Context) Alloc(bytes int) (Ptr, error) {
	if bytes <= 0 {
		return 0, invalid("cuMemAlloc", "%d bytes", bytes)
	}
	p := new(Ptr)
	err := c.call(fnMemAlloc, uintptr(unsafe.Pointer(p)), uintptr(bytes))
	return *p, err
}

// Free frees what Alloc has allocated, once all work enqueued in the context is done.
func (c *Context) Free(p Ptr) error { return c.call(fnMemFree, uintptr(p)) }

// Memory is how much of the device's memory is free, and how much there is.
func (c *Context) Memory() (freeBytes, totalBytes int, err error) {
	v := new([2]uintptr)
	err = c.call(fnMemGetInfo, uintptr(unsafe.Pointer(&v[0])), uintptr(unsafe.Pointer(&v[1])))
	return int(v[0]), int(v[1]), err
}

// CopyHtoD copies from the host and returns when src may be changed. It does not
// wait for streams, other than the default one.
func (c *Context) CopyHtoD(dst Ptr, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	return c.call(fnMemcpyHtoD, uintptr(dst), uintptr(unsafe.Pointer(&src[0])), uintptr(len(src)))
}

// CopyDtoH copies to the host, and returns when it is done.
func (c *Context) CopyDtoH(dst []byte, src Ptr) error {
	if len(dst) == 0 {
		return nil
	}
	return c.call(fnMemcpyDtoH, uintptr(unsafe.Pointer(&dst[0])), uintptr(src), uintptr(len(dst)))
}

// CopyDtoD enqueues a copy between devices, or on one, on the default stream.
func (c *Context) CopyDtoD(dst, src Ptr, bytes int) error {
	if bytes == 0 {
		return nil
	}
	return c.call(fnMemcpyDtoD, uintptr(dst), uintptr(src), uintptr(bytes))
}

// Fill8 enqueues on the default stream that bytes are set.
func (c *Context) Fill8(dst Ptr, v byte, bytes int) error {
	if bytes == 0 {
		return nil
	}
	return c.call(fnMemsetD8, uintptr(dst), uintptr(v), uintptr(bytes))
}

// Fill32 enqueues on the default stream that words are set.
func (c *Context) Fill32(dst Ptr, v uint32, words int) error {
	if words == 0 {
		return nil
	}
	return c.call(fnMemsetD32, uintptr(dst), uintptr(v), uintptr(words))
}

// CopyHtoD enqueues a copy from the host. src must be memory that the driver
// knows ([Context.AllocHost], [Context.RegisterHost]), and stay until it is done.
func (s Stream) CopyHtoD(dst Ptr, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	return s.context.enqueue(fnMemcpyHtoDAsync, uintptr(dst), uintptr(unsafe.Pointer(&src[0])), uintptr(len(src)), s.handle)
}

// CopyDtoH enqueues a copy to the host. dst must be memory that the driver
// knows ([Context.AllocHost], [Context.RegisterHost]), and stay until it is done.
func (s Stream) CopyDtoH(dst []byte, src Ptr) error {
	if len(dst) == 0 {
		return nil
	}
	return s.context.enqueue(fnMemcpyDtoHAsync, uintptr(unsafe.Pointer(&dst[0])), uintptr(src), uintptr(len(dst)), s.handle)
}

// CopyDtoD enqueues a copy between devices, or on one.
func (s Stream) CopyDtoD(dst, src Ptr, bytes int) error {
	if bytes == 0 {
		return nil
	}
	return s.context.enqueue(fnMemcpyDtoDAsync, uintptr(dst), uintptr(src), uintptr(bytes), s.handle)
}

// Fill8 enqueues that bytes are set.
func (s Stream) Fill8(dst Ptr, v byte, bytes int) error {
	if bytes == 0 {
		return nil
	}
	return s.context.enqueue(fnMemsetD8Async, uintptr(dst), uintptr(v), uintptr(bytes), s.handle)
}

// Fill32 enqueues that words are set.
func (s Stream) Fill32(dst Ptr, v uint32, words int) error {
	if words == 0 {
		return nil
	}
	return s.context.enqueue(fnMemsetD32Async, uintptr(dst), uintptr(v), uintptr(words), s.handle)
}
