package cuda

import "unsafe"

// IPCHandle is a CUipcMemHandle: memory from [Context.Alloc] or the CUDA
// runtime, for other processes of this host.
type IPCHandle [64]byte

const ipcLazyPeerAccess = 1

// IPCHandle returns a handle of the whole allocation that p lies in.
func (c *Context) IPCHandle(p Ptr) (IPCHandle, error) {
	h := new(IPCHandle)
	err := c.call(fnIpcGetMemHandle, uintptr(unsafe.Pointer(h)), uintptr(p))
	return *h, err
}

// OpenIPC maps another process's allocation, and returns where it begins.
// The handle must not be this process's own. It stays mapped until [Context.CloseIPC].
func (c *Context) OpenIPC(h IPCHandle) (Ptr, error) {
	p := new(Ptr)
	err := c.openIPC(p, &h)
	return *p, err
}

// CloseIPC undoes one OpenIPC.
func (c *Context) CloseIPC(p Ptr) error { return c.call(fnIpcCloseMemHandle, uintptr(p)) }
