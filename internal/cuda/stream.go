package cuda

import (
	"sync"
	"unsafe"
)

// Stream is a queue of work for a device, ours or another library's. It is a
// plain value: a copy is the same stream.
type Stream struct {
	context *Context
	handle  uintptr
}

const (
	streamNonBlocking = 1

	waitGEQ = 0
	waitEQ  = 1

	captureRelaxed = 2
)

// NewStream makes a stream, which does not wait for the context's default
// stream. Lower priorities go first; 0 is the usual one.
func (c *Context) NewStream(priority int) (Stream, error) {
	h := new(uintptr)
	err := c.call(fnStreamCreateWithPriority, uintptr(unsafe.Pointer(h)), streamNonBlocking, uintptr(int32(priority)))
	return Stream{c, *h}, err
}

// Stream is somebody else's stream, a CUstream or cudaStream_t of this context's
// device. 0 is the default stream.
func (c *Context) Stream(handle uintptr) Stream { return Stream{c, handle} }

// Handle is the stream as a CUstream.
func (s Stream) Handle() uintptr { return s.handle }

// Context is the stream's context.
func (s Stream) Context() *Context { return s.context }

// Owner asks the driver for the CUcontext that the stream belongs to.
func (s Stream) Owner() (uintptr, error) {
	h := new(uintptr)
	err := s.context.call(fnStreamGetCtx, s.handle, uintptr(unsafe.Pointer(h)))
	return *h, err
}

// Destroy gives the stream up. What is enqueued is still done.
func (s Stream) Destroy() error { return s.context.call(fnStreamDestroy, s.handle) }

// Synchronize waits until everything enqueued is done.
func (s Stream) Synchronize() error { return s.context.enqueue(fnStreamSynchronize, s.handle, 0, 0, 0) }

// Done tells whether everything enqueued is done.
func (s Stream) Done() (bool, error) { return s.context.ready(fnStreamQuery, s.handle) }

// WaitEvent holds the work that is enqueued from now on until the event's last
// record is reached. The event may be one of another device.
func (s Stream) WaitEvent(e Event) error {
	return s.context.enqueue(fnStreamWaitEvent, s.handle, e.handle, 0, 0)
}

// Write32 stores a word, after the work enqueued before, whose writes are visible to whoever reads it.
func (s Stream) Write32(p Ptr, v uint32) error {
	return s.context.enqueue(fnStreamWriteValue32, s.handle, uintptr(p), uintptr(v), 0)
}

// Write64 is Write32 for 64 bits.
func (s Stream) Write64(p Ptr, v uint64) error {
	return s.context.enqueue(fnStreamWriteValue64, s.handle, uintptr(p), uintptr(v), 0)
}

// WaitAtLeast32 holds the stream until the word is v or up to 2³¹-1 more, modulo 2³².
func (s Stream) WaitAtLeast32(p Ptr, v uint32) error {
	return s.context.enqueue(fnStreamWaitValue32, s.handle, uintptr(p), uintptr(v), waitGEQ)
}

// WaitAtLeast64 holds the stream until the word is v or up to 2⁶³-1 more, modulo 2⁶⁴.
func (s Stream) WaitAtLeast64(p Ptr, v uint64) error {
	return s.context.enqueue(fnStreamWaitValue64, s.handle, uintptr(p), uintptr(v), waitGEQ)
}

// WaitEqual32 holds the stream until the word is v.
func (s Stream) WaitEqual32(p Ptr, v uint32) error {
	return s.context.enqueue(fnStreamWaitValue32, s.handle, uintptr(p), uintptr(v), waitEQ)
}

// BeginCapture records what is enqueued into a graph from now on, instead of doing it.
// Calls of other threads that would disturb a capture are allowed.
func (s Stream) BeginCapture() error {
	return s.context.call(fnStreamBeginCapture, s.handle, captureRelaxed)
}

// EndCapture ends what BeginCapture began.
func (s Stream) EndCapture() (*Graph, error) {
	g := &Graph{context: s.context}
	if err := s.context.call(fnStreamEndCapture, s.handle, uintptr(unsafe.Pointer(&g.handle))); err != nil {
		return nil, err
	}
	return g, nil
}

// words are for results of calls that must not allocate.
var words = sync.Pool{New: func() any { return new(uint32) }}

// Capturing tells whether the stream is being captured, by anybody.
func (s Stream) Capturing() (bool, error) {
	status := words.Get().(*uint32)
	err := s.context.enqueue(fnStreamIsCapturing, s.handle, uintptr(unsafe.Pointer(status)), 0, 0)
	capturing := err == nil && *status != 0
	words.Put(status)
	return capturing, err
}
