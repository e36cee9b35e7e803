package cuda

import (
	"runtime"
	"unsafe"
)

// Module is compiled code, loaded for a context.
type Module struct {
	context *Context
	handle  uintptr
}

// Function is a kernel of a module. It is a plain value: a copy is the same kernel.
type Function struct {
	context *Context
	handle  uintptr
}

const (
	jitErrorLog      = 5
	jitErrorLogBytes = 6
)

// LoadModule loads a cubin, a fatbin, or PTX, which the driver compiles. If it
// does not compile, the error has the compiler's message.
func (c *Context) LoadModule(image []byte) (*Module, error) {
	if len(image) == 0 {
		return nil, invalid("cuModuleLoadDataEx", "no code")
	}
	// PTX is text that ends with a zero byte; what follows the others is not looked at.
	text := make([]byte, len(image)+1)
	copy(text, image)

	log := make([]byte, 4096)
	options := &[2]uint32{jitErrorLog, jitErrorLogBytes}
	// Numbers among the options' values stand where pointers would.
	values := &[2]uintptr{uintptr(unsafe.Pointer(&log[0])), uintptr(len(log))}
	var pin runtime.Pinner // as values has the log's address as a number
	pin.Pin(&log[0])
	defer pin.Unpin()

	m := &Module{context: c}
	err := c.call(fnModuleLoadDataEx, uintptr(unsafe.Pointer(&m.handle)), uintptr(unsafe.Pointer(&text[0])),
		uintptr(len(options)), uintptr(unsafe.Pointer(options)), uintptr(unsafe.Pointer(values)))
	if err != nil {
		log[len(log)-1] = 0
		if e, ok := err.(*Error); ok && log[0] != 0 {
			e.Detail += ": " + goString(&log[0])
		}
		return nil, err
	}
	return m, nil
}

// Unload unloads the module. None of its kernels may be running.
func (m *Module) Unload() error { return m.context.call(fnModuleUnload, m.handle) }

// Function finds a kernel by its name in the code.
func (m *Module) Function(name string) (Function, error) {
	h := new(uintptr)
	err := m.context.call(fnModuleGetFunction, uintptr(unsafe.Pointer(h)), m.handle, uintptr(unsafe.Pointer(cString(name))))
	return Function{m.context, *h}, named(err, name)
}

// Global finds a variable of the device by its name in the code.
func (m *Module) Global(name string) (p Ptr, bytes int, err error) {
	v := new([2]uintptr)
	err = m.context.call(fnModuleGetGlobal, uintptr(unsafe.Pointer(&v[0])), uintptr(unsafe.Pointer(&v[1])), m.handle, uintptr(unsafe.Pointer(cString(name))))
	return Ptr(v[0]), int(v[1]), named(err, name)
}

// named adds what was looked for to an error.
func named(err error, name string) error {
	if e, ok := err.(*Error); ok {
		e.Detail += ": " + name
	}
	return err
}

// Context is the context that the kernel was loaded for.
func (f Function) Context() *Context { return f.context }

// Attribute asks for a property of the kernel.
func (f Function) Attribute(a FunctionAttribute) (int, error) {
	v := new(int32)
	err := f.context.call(fnFuncGetAttribute, uintptr(unsafe.Pointer(v)), uintptr(a), f.handle)
	return int(*v), err
}

// SetMaxDynamicShared sets how much dynamic shared memory a launch may ask for, beyond 48 KiB.
func (f Function) SetMaxDynamicShared(bytes int) error {
	return f.context.call(fnFuncSetAttribute, f.handle, uintptr(FunctionMaxDynamicShared), uintptr(bytes))
}

// BlocksPerSM is how many blocks of so many threads, with so much dynamic
// shared memory, are on one multiprocessor at a time.
func (f Function) BlocksPerSM(threads, sharedBytes int) (int, error) {
	v := new(int32)
	err := f.context.call(fnOccupancyMaxActiveBlocks, uintptr(unsafe.Pointer(v)), f.handle, uintptr(int32(threads)), uintptr(sharedBytes))
	return int(*v), err
}
