package cuda

import (
	"time"
	"unsafe"
)

// Event is a mark in a stream. It is a plain value: a copy is the same event.
type Event struct {
	context *Context
	handle  uintptr
}

const eventDisableTiming = 2

// NewEvent makes an event. Those that take no time are cheaper.
func (c *Context) NewEvent(timing bool) (Event, error) {
	flags := uintptr(eventDisableTiming)
	if timing {
		flags = 0
	}
	h := new(uintptr)
	err := c.call(fnEventCreate, uintptr(unsafe.Pointer(h)), flags)
	return Event{c, *h}, err
}

// Event is somebody else's event, a CUevent or cudaEvent_t.
func (c *Context) Event(handle uintptr) Event { return Event{c, handle} }

// Handle is the event as a CUevent.
func (e Event) Handle() uintptr { return e.handle }

// Destroy gives the event up.
func (e Event) Destroy() error { return e.context.call(fnEventDestroy, e.handle) }

// Record puts the mark at the end of what is enqueued on the stream, which must be of the event's context.
func (e Event) Record(s Stream) error {
	return e.context.enqueue(fnEventRecord, e.handle, s.handle, 0, 0)
}

// Done tells whether what was enqueued before the mark is done.
func (e Event) Done() (bool, error) { return e.context.ready(fnEventQuery, e.handle) }

// Synchronize waits until what was enqueued before the mark is done.
func (e Event) Synchronize() error { return e.context.enqueue(fnEventSynchronize, e.handle, 0, 0, 0) }

// Since is the time from another mark to this one, both reached and taking time.
func (e Event) Since(start Event) (time.Duration, error) {
	ms := new(float32)
	err := e.context.call(fnEventElapsedTime, uintptr(unsafe.Pointer(ms)), start.handle, e.handle)
	return time.Duration(float64(*ms) * float64(time.Millisecond)), err
}
