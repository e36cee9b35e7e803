package cuda

import "unsafe"

// Launch is how a kernel is to be launched. It is set once and launched as often
// as wanted, which allocates nothing. Only one goroutine may use it at a time;
// the driver copies all of it, so it may be changed after a launch.
type Launch struct {
	function   Function
	config     launchConfig
	attributes [maxLaunchAttributes]launchAttribute
	params     []unsafe.Pointer
}

// maxLaunchAttributes is as many as there are setters below.
const maxLaunchAttributes = 5

const (
	launchCooperative   = 2
	launchClusterDim    = 4
	launchProgrammatic  = 6
	launchPriority      = 8
	launchMemSyncDomain = 10
)

// Memory synchronisation domains: a fence in one does not wait for what kernels
// in the other have written.
const (
	DomainDefault = 0
	DomainRemote  = 1
)

// launchConfig is a CUlaunchConfig.
type launchConfig struct {
	grid, block    [3]uint32
	sharedBytes    uint32
	stream         uintptr
	attributes     *launchAttribute
	attributeCount uint32
}

// launchAttribute is a CUlaunchAttribute: a union in 64 bytes, of which we need the first words.
type launchAttribute struct {
	id    uint32
	_     uint32
	value [16]uint32
}

// NewLaunch returns a launch of one block of one thread.
//
// params are the addresses of the kernel's parameters, in order, of the types
// that the kernel declares. Their values are read at each launch, so they may be
// changed between launches. Where a parameter is an address in a device's memory
// it is a number ([Ptr]).
func (f Function) NewLaunch(params ...unsafe.Pointer) *Launch {
	l := &Launch{function: f, params: params}
	l.config.grid = [3]uint32{1, 1, 1}
	l.config.block = [3]uint32{1, 1, 1}
	l.config.attributes = &l.attributes[0]
	return l
}

// SetGrid sets the number of blocks.
func (l *Launch) SetGrid(x, y, z int) { l.config.grid = dim(x, y, z) }

// SetBlock sets the number of threads of a block.
func (l *Launch) SetBlock(x, y, z int) { l.config.block = dim(x, y, z) }

// SetShared sets the amount of dynamic shared memory.
func (l *Launch) SetShared(bytes int) { l.config.sharedBytes = uint32(bytes) }

// SetCooperative asks that all blocks be on the device at once, or the launch refused.
func (l *Launch) SetCooperative(on bool) { l.set(launchCooperative, on, flag(on)) }

// SetCluster groups blocks into clusters. 0, 0, 0 leaves it to the kernel.
func (l *Launch) SetCluster(x, y, z int) {
	d := dim(x, y, z)
	l.set(launchClusterDim, d != [3]uint32{}, d[0], d[1], d[2])
}

// SetProgrammatic lets the kernel start before the one in front of it on the
// stream has ended: as soon as that has triggered it. It then has to wait itself
// (griddepcontrol.wait) before it uses what that one writes.
func (l *Launch) SetProgrammatic(on bool) { l.set(launchProgrammatic, on, flag(on)) }

// SetPriority sets the kernel's priority, if it is to differ from the stream's.
func (l *Launch) SetPriority(priority int) { l.set(launchPriority, true, uint32(int32(priority))) }

// SetDomain sets the memory synchronisation domain.
func (l *Launch) SetDomain(domain int) { l.set(launchMemSyncDomain, true, uint32(domain)) }

// Enqueue launches the kernel on the stream, which must be of the kernel's context.
func (l *Launch) Enqueue(s Stream) error {
	l.config.stream = s.handle
	return l.function.context.enqueue(fnLaunchKernelEx, uintptr(unsafe.Pointer(&l.config)), l.function.handle,
		uintptr(unsafe.Pointer(unsafe.SliceData(l.params))), 0)
}

// set puts an attribute into the list, or takes it out of it.
func (l *Launch) set(id uint32, on bool, value ...uint32) {
	n := int(l.config.attributeCount)
	i := 0
	for i < n && l.attributes[i].id != id {
		i++
	}
	switch {
	case on:
		if i == n {
			l.config.attributeCount++
		}
		l.attributes[i] = launchAttribute{id: id}
		copy(l.attributes[i].value[:], value)
	case i < n:
		l.attributes[i] = l.attributes[n-1]
		l.config.attributeCount--
	}
}

func dim(x, y, z int) [3]uint32 { return [3]uint32{uint32(x), uint32(y), uint32(z)} }

func flag(on bool) uint32 {
	if on {
		return 1
	}
	return 0
}
