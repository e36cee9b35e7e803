package cuda

import (
	"errors"
	"runtime"
	"sync"
	"unsafe"
)

// Context is a device's primary context, which the CUDA runtime and all
// libraries over it use too: memory, streams and modules of one are those of all.
type Context struct {
	driver *Driver
	device *Device
	handle uintptr
}

// Primary returns the device's primary context, making it if nobody uses it yet
// (which takes a good part of a second and some hundred MB of the device's
// memory). It lasts until every Primary has had its [Context.Release].
func (dev *Device) Primary() (*Context, error) {
	for _, f := range []function{fnCtxPushCurrent, fnCtxPopCurrent} {
		if !dev.driver.has(f) {
			return nil, dev.driver.lacks(f)
		}
	}
	c := &Context{driver: dev.driver, device: dev}
	if err := dev.driver.call(fnDevicePrimaryCtxRetain, uintptr(unsafe.Pointer(&c.handle)), uintptr(dev.handle)); err != nil {
		return nil, err
	}
	return c, nil
}

// Release gives the context back. What was made in it must not be used after that.
func (c *Context) Release() error {
	return c.driver.call(fnDevicePrimaryCtxRelease, uintptr(c.device.handle))
}

// Device is the context's device.
func (c *Context) Device() *Device { return c.device }

// Driver is the context's driver.
func (c *Context) Driver() *Driver { return c.driver }

// Handle is the context as a CUcontext.
func (c *Context) Handle() uintptr { return c.handle }

// Do calls f on a thread whose current context this is, for calls of CUDA that
// others make there. f must not change what is current.
func (c *Context) Do(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.driver.call(fnCtxPushCurrent, c.handle); err != nil {
		return err
	}
	err := f()
	return errors.Join(err, c.driver.call(fnCtxPopCurrent, 0))
}

// code makes the context current on this thread and calls a function that the
// driver is known to have. What was current before is so again afterwards.
//
//go:uintptrescapes
func (c *Context) code(f function, args ...uintptr) Code {
	d := c.driver
	runtime.LockOSThread()
	code := d.code(fnCtxPushCurrent, c.handle)
	if code == Success {
		code = d.code(f, args...)
		d.code(fnCtxPopCurrent, 0) // it can only fail where nothing was pushed
	}
	runtime.UnlockOSThread()
	return code
}

// call calls a function with the context current.
//
//go:uintptrescapes
func (c *Context) call(f function, args ...uintptr) error {
	if !c.driver.has(f) {
		return c.driver.lacks(f)
	}
	if code := c.code(f, args...); code != Success {
		return c.driver.failed(f, code)
	}
	return nil
}

// enqueue is call for what programs do all the time: it allocates nothing, where
// the list of arguments of call does. Arguments beyond a function's own do no harm.
//
//go:uintptrescapes
func (c *Context) enqueue(f function, arg0, arg1, arg2, arg3 uintptr) error {
	if !c.driver.has(f) {
		return c.driver.lacks(f)
	}
	if code := c.enqueueCode(f, arg0, arg1, arg2, arg3); code != Success {
		return c.driver.failed(f, code)
	}
	return nil
}

// enqueueCode is code for what programs do all the time.
//
//go:uintptrescapes
func (c *Context) enqueueCode(f function, arg0, arg1, arg2, arg3 uintptr) Code {
	d := c.driver
	args := arguments.Get().(*[4]uintptr)
	runtime.LockOSThread()
	args[0] = c.handle
	code := d.code(fnCtxPushCurrent, args[:1]...)
	if code == Success {
		*args = [4]uintptr{arg0, arg1, arg2, arg3}
		code = d.code(f, args[:]...)
		args[0] = 0
		d.code(fnCtxPopCurrent, args[:1]...)
	}
	runtime.UnlockOSThread()
	arguments.Put(args)
	return code
}

var arguments = sync.Pool{New: func() any { return new([4]uintptr) }}

// ready calls a function that answers [NotReady] if something isn't finished.
func (c *Context) ready(f function, handle uintptr) (bool, error) {
	if !c.driver.has(f) {
		return false, c.driver.lacks(f)
	}
	switch code := c.enqueueCode(f, handle, 0, 0, 0); code {
	case Success:
		return true, nil
	case NotReady:
		return false, nil
	default:
		return false, c.driver.failed(f, code)
	}
}

// Synchronize waits until everything enqueued in the context is done. It
// returns what has gone wrong on the device since somebody asked.
func (c *Context) Synchronize() error { return c.call(fnCtxSynchronize) }

// EnablePeer lets this context's kernels and copies reach memory that was
// allocated in the peer's, by [Context.Alloc] or the CUDA runtime. (Mapped
// memory has its own rights, see [Driver.SetAccess].) It is no error if they can already.
func (c *Context) EnablePeer(peer *Context) error {
	err := c.call(fnCtxEnablePeerAccess, peer.handle, 0)
	if errors.Is(err, PeerAccessAlreadyEnabled) {
		return nil
	}
	return err
}

// StreamPriorities returns the range of priorities of streams. Lower numbers go first.
func (c *Context) StreamPriorities() (least, greatest int, err error) {
	v := new([2]int32)
	err = c.call(fnCtxGetStreamPriorityRange, uintptr(unsafe.Pointer(&v[0])), uintptr(unsafe.Pointer(&v[1])))
	return int(v[0]), int(v[1]), err
}
