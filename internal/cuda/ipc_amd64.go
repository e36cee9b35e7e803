package cuda

import "unsafe"

// openIPC calls cuIpcOpenMemHandle, which takes the handle by value: on amd64
// such a structure lies among the arguments on the stack, behind the six that
// are in registers, of which this function uses two.
func (c *Context) openIPC(p *Ptr, h *IPCHandle) error {
	w := *(*[8]uintptr)(unsafe.Pointer(h))
	return c.call(fnIpcOpenMemHandle, uintptr(unsafe.Pointer(p)), ipcLazyPeerAccess, 0, 0, 0, 0,
		w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7])
}
