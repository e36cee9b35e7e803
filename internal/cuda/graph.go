package cuda

import "unsafe"

// Graph is work that was captured from a stream.
type Graph struct {
	context *Context
	handle  uintptr
}

// GraphExec is a graph ready to be launched, any number of times.
type GraphExec struct {
	context *Context
	handle  uintptr
}

// Instantiate makes the graph ready to be launched. The graph may be destroyed after that.
func (g *Graph) Instantiate() (*GraphExec, error) {
	x := &GraphExec{context: g.context}
	if err := g.context.call(fnGraphInstantiate, uintptr(unsafe.Pointer(&x.handle)), g.handle, 0); err != nil {
		return nil, err
	}
	return x, nil
}

// Destroy gives the graph up.
func (g *Graph) Destroy() error { return g.context.call(fnGraphDestroy, g.handle) }

// Upload does in advance what the first launch would have to.
func (x *GraphExec) Upload(s Stream) error {
	return x.context.call(fnGraphUpload, x.handle, s.handle)
}

// Launch enqueues the graph's work.
func (x *GraphExec) Launch(s Stream) error {
	return x.context.enqueue(fnGraphLaunch, x.handle, s.handle, 0, 0)
}

// Destroy gives the graph up. Launches of it are still done.
func (x *GraphExec) Destroy() error { return x.context.call(fnGraphExecDestroy, x.handle) }
