package cuda

// DeviceAttribute is a CUdevice_attribute.
type DeviceAttribute int32

// Properties of devices.
const (
	MaxThreadsPerBlock         DeviceAttribute = 1
	MaxSharedPerBlock          DeviceAttribute = 8
	MultiprocessorCount        DeviceAttribute = 16
	ComputeMode                DeviceAttribute = 20
	L2Bytes                    DeviceAttribute = 38
	MaxThreadsPerSM            DeviceAttribute = 39
	CopyEngines                DeviceAttribute = 40
	UnifiedAddressing          DeviceAttribute = 41
	ComputeCapabilityMajor     DeviceAttribute = 75
	ComputeCapabilityMinor     DeviceAttribute = 76
	CooperativeLaunch          DeviceAttribute = 95
	MaxSharedPerBlockOptIn     DeviceAttribute = 97
	VirtualMemory              DeviceAttribute = 102
	POSIXHandles               DeviceAttribute = 103
	ClusterLaunch              DeviceAttribute = 120
	StreamMemoryOps64          DeviceAttribute = 122
	MemSyncDomains             DeviceAttribute = 126
	FabricHandles              DeviceAttribute = 128
	Multicast                  DeviceAttribute = 132
	HostNUMANode               DeviceAttribute = 134
	EndpointUnicast            DeviceAttribute = 153
	EndpointMulticast          DeviceAttribute = 154
	EndpointCountedOps         DeviceAttribute = 155
	EndpointUnicastOwnerAccess DeviceAttribute = 156
)

// LinkAttribute is a CUdevice_P2PAttribute.
type LinkAttribute int32

// Properties of the way between two devices.
const (
	LinkRank          LinkAttribute = 1 // the lower, the faster
	LinkAccess        LinkAttribute = 2
	LinkNativeAtomics LinkAttribute = 3
)

// FunctionAttribute is a CUfunction_attribute.
type FunctionAttribute int32

// Properties of kernels.
const (
	FunctionMaxThreads       FunctionAttribute = 0
	FunctionSharedBytes      FunctionAttribute = 1 // static
	FunctionLocalBytes       FunctionAttribute = 3 // per thread
	FunctionRegisters        FunctionAttribute = 4 // per thread
	FunctionBinaryVersion    FunctionAttribute = 6 // 10 × major + minor of the architecture
	FunctionMaxDynamicShared FunctionAttribute = 8 // may be set
)
