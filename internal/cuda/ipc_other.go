//go:build !amd64

package cuda

import "unsafe"

// openIPC calls cuIpcOpenMemHandle, which takes the handle by value: on arm64
// the caller passes the address of a copy.
func (c *Context) openIPC(p *Ptr, h *IPCHandle) error {
	return c.call(fnIpcOpenMemHandle, uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(h)), ipcLazyPeerAccess)
}
