//go:build linux && !android && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/internal/cuda/cudatest"
)

// figure is a number that the C compiler knows and this package believes to know.
type figure struct {
	c     string // an expression in C
	value uintptr
	since int // the version of CUDA that has it first, if not all we look at
}

// figures are all layouts and values that this package takes from cuda.h.
func figures() []figure {
	var (
		config    launchConfig
		attribute launchAttribute
		prop      memProp
		access    memAccess
	)
	return []figure{
		{c: "sizeof(CUresult)", value: unsafe.Sizeof(Code(0))},
		{c: "sizeof(CUdevice)", value: unsafe.Sizeof(Device{}.handle)},
		{c: "sizeof(CUdeviceptr)", value: unsafe.Sizeof(Ptr(0))},
		{c: "sizeof(CUcontext)", value: unsafe.Sizeof(Context{}.handle)},
		{c: "sizeof(CUstream)", value: unsafe.Sizeof(Stream{}.handle)},
		{c: "sizeof(CUevent)", value: unsafe.Sizeof(Event{}.handle)},
		{c: "sizeof(CUmodule)", value: unsafe.Sizeof(Module{}.handle)},
		{c: "sizeof(CUfunction)", value: unsafe.Sizeof(Function{}.handle)},
		{c: "sizeof(CUgraph)", value: unsafe.Sizeof(Graph{}.handle)},
		{c: "sizeof(CUgraphExec)", value: unsafe.Sizeof(GraphExec{}.handle)},
		{c: "sizeof(CUmemGenericAllocationHandle)", value: unsafe.Sizeof(Memory{}.handle)},
		{c: "sizeof(CUuuid)", value: unsafe.Sizeof(UUID{})},
		{c: "sizeof(CUipcMemHandle)", value: unsafe.Sizeof(IPCHandle{})},
		{c: "sizeof(CUmemFabricHandle)", value: unsafe.Sizeof(FabricHandle{})},
		{c: "sizeof(CUmemorytype)", value: unsafe.Sizeof(pointerQuery{}.kind)},
		{c: "sizeof(CUpointer_attribute)", value: unsafe.Sizeof(pointerQuery{}.attributes[0])},
		{c: "sizeof(CUjit_option)", value: 4},
		{c: "sizeof(CUstreamCaptureStatus)", value: 4},

		{c: "sizeof(CUlaunchConfig)", value: unsafe.Sizeof(config)},
		{c: "offsetof(CUlaunchConfig, gridDimX)", value: unsafe.Offsetof(config.grid)},
		{c: "offsetof(CUlaunchConfig, gridDimZ)", value: unsafe.Offsetof(config.grid) + 8},
		{c: "offsetof(CUlaunchConfig, blockDimX)", value: unsafe.Offsetof(config.block)},
		{c: "offsetof(CUlaunchConfig, blockDimZ)", value: unsafe.Offsetof(config.block) + 8},
		{c: "offsetof(CUlaunchConfig, sharedMemBytes)", value: unsafe.Offsetof(config.sharedBytes)},
		{c: "offsetof(CUlaunchConfig, hStream)", value: unsafe.Offsetof(config.stream)},
		{c: "offsetof(CUlaunchConfig, attrs)", value: unsafe.Offsetof(config.attributes)},
		{c: "offsetof(CUlaunchConfig, numAttrs)", value: unsafe.Offsetof(config.attributeCount)},
		{c: "sizeof(CUlaunchAttribute)", value: unsafe.Sizeof(attribute)},
		{c: "offsetof(CUlaunchAttribute, id)", value: unsafe.Offsetof(attribute.id)},
		{c: "offsetof(CUlaunchAttribute, value)", value: unsafe.Offsetof(attribute.value)},
		{c: "offsetof(CUlaunchAttributeValue, clusterDim.z)", value: 8},
		{c: "sizeof(((CUlaunchAttributeValue *)0)->cooperative)", value: 4},
		{c: "sizeof(((CUlaunchAttributeValue *)0)->memSyncDomain)", value: 4},
		{c: "sizeof(((CUlaunchAttributeValue *)0)->programmaticStreamSerializationAllowed)", value: 4},
		{c: "sizeof(((CUlaunchAttributeValue *)0)->priority)", value: 4},
		{c: "CU_LAUNCH_ATTRIBUTE_COOPERATIVE", value: launchCooperative},
		{c: "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION", value: launchClusterDim},
		{c: "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION", value: launchProgrammatic},
		{c: "CU_LAUNCH_ATTRIBUTE_PRIORITY", value: launchPriority},
		{c: "CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN", value: launchMemSyncDomain},
		{c: "CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT", value: DomainDefault},
		{c: "CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE", value: DomainRemote},

		{c: "sizeof(CUmemAllocationProp)", value: unsafe.Sizeof(prop)},
		{c: "offsetof(CUmemAllocationProp, type)", value: unsafe.Offsetof(prop.kind)},
		{c: "offsetof(CUmemAllocationProp, requestedHandleTypes)", value: unsafe.Offsetof(prop.handleTypes)},
		{c: "offsetof(CUmemAllocationProp, location)", value: unsafe.Offsetof(prop.location)},
		{c: "offsetof(CUmemAllocationProp, win32HandleMetaData)", value: unsafe.Offsetof(prop.win32Meta)},
		{c: "offsetof(CUmemAllocationProp, allocFlags.compressionType)", value: unsafe.Offsetof(prop.compression)},
		{c: "offsetof(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable)", value: unsafe.Offsetof(prop.gpuDirectRDMA)},
		{c: "offsetof(CUmemAllocationProp, allocFlags.usage)", value: unsafe.Offsetof(prop.usage)},
		{c: "offsetof(CUmemAllocationProp, allocFlags.reserved)", value: unsafe.Offsetof(prop.reserved)},
		{c: "sizeof(CUmemLocation)", value: unsafe.Sizeof(prop.location)},
		{c: "offsetof(CUmemLocation, type)", value: unsafe.Offsetof(prop.location.kind)},
		{c: "offsetof(CUmemLocation, id)", value: unsafe.Offsetof(prop.location.id)},
		{c: "sizeof(CUmemAccessDesc)", value: unsafe.Sizeof(access)},
		{c: "offsetof(CUmemAccessDesc, location)", value: unsafe.Offsetof(access.location)},
		{c: "offsetof(CUmemAccessDesc, flags)", value: unsafe.Offsetof(access.flags)},
		{c: "CU_MEM_ALLOCATION_TYPE_PINNED", value: memAllocationPinned},
		{c: "CU_MEM_LOCATION_TYPE_DEVICE", value: memLocationDevice},
		{c: "CU_MEM_ALLOC_GRANULARITY_RECOMMENDED", value: memGranularity},
		{c: "CU_MEM_ACCESS_FLAGS_PROT_READWRITE", value: memReadWrite},
		{c: "CU_MEM_HANDLE_TYPE_NONE", value: uintptr(HandleNone)},
		{c: "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR", value: uintptr(HandlePOSIX)},
		{c: "CU_MEM_HANDLE_TYPE_FABRIC", value: uintptr(HandleFabric)},
		{c: "CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS", value: ipcLazyPeerAccess},

		{c: "CU_MEMORYTYPE_HOST", value: uintptr(MemoryHost)},
		{c: "CU_MEMORYTYPE_DEVICE", value: uintptr(MemoryDevice)},
		{c: "CU_POINTER_ATTRIBUTE_MEMORY_TYPE", value: pointerMemoryType},
		{c: "CU_POINTER_ATTRIBUTE_BUFFER_ID", value: pointerBufferID},
		{c: "CU_POINTER_ATTRIBUTE_IS_MANAGED", value: pointerManaged},
		{c: "CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL", value: pointerDeviceOrdinal},
		{c: "CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE", value: pointerIPC},
		{c: "CU_POINTER_ATTRIBUTE_RANGE_START_ADDR", value: pointerRangeStart},
		{c: "CU_POINTER_ATTRIBUTE_RANGE_SIZE", value: pointerRangeSize},

		{c: "CU_MEMHOSTALLOC_PORTABLE", value: hostPortable},
		{c: "CU_MEMHOSTALLOC_DEVICEMAP", value: hostMapped},
		{c: "CU_MEMHOSTREGISTER_PORTABLE", value: hostPortable},
		{c: "CU_MEMHOSTREGISTER_DEVICEMAP", value: hostMapped},
		{c: "CU_STREAM_NON_BLOCKING", value: streamNonBlocking},
		{c: "CU_STREAM_WAIT_VALUE_GEQ", value: waitGEQ},
		{c: "CU_STREAM_WAIT_VALUE_EQ", value: waitEQ},
		{c: "CU_STREAM_WRITE_VALUE_DEFAULT", value: 0},
		{c: "CU_STREAM_CAPTURE_MODE_RELAXED", value: captureRelaxed},
		{c: "CU_STREAM_CAPTURE_STATUS_NONE", value: 0},
		{c: "CU_EVENT_DISABLE_TIMING", value: eventDisableTiming},
		{c: "CU_JIT_ERROR_LOG_BUFFER", value: jitErrorLog},
		{c: "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES", value: jitErrorLogBytes},

		{c: "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK", value: uintptr(MaxThreadsPerBlock)},
		{c: "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK", value: uintptr(MaxSharedPerBlock)},
		{c: "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT", value: uintptr(MultiprocessorCount)},
		{c: "CU_DEVICE_ATTRIBUTE_COMPUTE_MODE", value: uintptr(ComputeMode)},
		{c: "CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE", value: uintptr(L2Bytes)},
		{c: "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR", value: uintptr(MaxThreadsPerSM)},
		{c: "CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT", value: uintptr(CopyEngines)},
		{c: "CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING", value: uintptr(UnifiedAddressing)},
		{c: "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR", value: uintptr(ComputeCapabilityMajor)},
		{c: "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR", value: uintptr(ComputeCapabilityMinor)},
		{c: "CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH", value: uintptr(CooperativeLaunch)},
		{c: "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", value: uintptr(MaxSharedPerBlockOptIn)},
		{c: "CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", value: uintptr(VirtualMemory)},
		{c: "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED", value: uintptr(POSIXHandles)},
		{c: "CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH", value: uintptr(ClusterLaunch)},
		{c: "CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS", value: uintptr(StreamMemoryOps64)},
		{c: "CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT", value: uintptr(MemSyncDomains)},
		{c: "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED", value: uintptr(FabricHandles)},
		{c: "CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED", value: uintptr(Multicast)},
		{c: "CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID", value: uintptr(HostNUMANode)},
		{c: "CU_DEVICE_ATTRIBUTE_LOGICAL_ENDPOINT_UNICAST_SUPPORTED", value: uintptr(EndpointUnicast), since: 13030},
		{c: "CU_DEVICE_ATTRIBUTE_LOGICAL_ENDPOINT_MULTICAST_SUPPORTED", value: uintptr(EndpointMulticast), since: 13030},
		{c: "CU_DEVICE_ATTRIBUTE_LOGICAL_ENDPOINT_COUNTED_OPS_SUPPORTED", value: uintptr(EndpointCountedOps), since: 13030},
		{c: "CU_DEVICE_ATTRIBUTE_LOGICAL_ENDPOINT_UNICAST_ACCESS_ON_OWNER_DEVICE_SUPPORTED", value: uintptr(EndpointUnicastOwnerAccess), since: 13030},
		{c: "CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK", value: uintptr(LinkRank)},
		{c: "CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED", value: uintptr(LinkAccess)},
		{c: "CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED", value: uintptr(LinkNativeAtomics)},
		{c: "CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK", value: uintptr(FunctionMaxThreads)},
		{c: "CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES", value: uintptr(FunctionSharedBytes)},
		{c: "CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES", value: uintptr(FunctionLocalBytes)},
		{c: "CU_FUNC_ATTRIBUTE_NUM_REGS", value: uintptr(FunctionRegisters)},
		{c: "CU_FUNC_ATTRIBUTE_BINARY_VERSION", value: uintptr(FunctionBinaryVersion)},
		{c: "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", value: uintptr(FunctionMaxDynamicShared)},
	}
}

// parameters are what the functions take, as the calls in this package have it.
// (Handles are pointers to different structures, and enumerations are distinct
// types, so none can be mistaken for another.)
var parameters = [functionCount]string{
	fnInit:             "unsigned",
	fnDriverGetVersion: "int *",
	fnGetErrorString:   "CUresult, const char **",

	fnDeviceGet:             "CUdevice *, int",
	fnDeviceGetCount:        "int *",
	fnDeviceGetName:         "char *, int, CUdevice",
	fnDeviceGetUuid:         "CUuuid *, CUdevice",
	fnDeviceGetAttribute:    "int *, CUdevice_attribute, CUdevice",
	fnDeviceGetPCIBusId:     "char *, int, CUdevice",
	fnDeviceTotalMem:        "size_t *, CUdevice",
	fnDeviceCanAccessPeer:   "int *, CUdevice, CUdevice",
	fnDeviceGetP2PAttribute: "int *, CUdevice_P2PAttribute, CUdevice, CUdevice",

	fnDevicePrimaryCtxRetain:    "CUcontext *, CUdevice",
	fnDevicePrimaryCtxRelease:   "CUdevice",
	fnCtxPushCurrent:            "CUcontext",
	fnCtxPopCurrent:             "CUcontext *",
	fnCtxGetCurrent:             "CUcontext *",
	fnCtxSynchronize:            "void",
	fnCtxEnablePeerAccess:       "CUcontext, unsigned",
	fnCtxGetStreamPriorityRange: "int *, int *",

	fnStreamCreateWithPriority: "CUstream *, unsigned, int",
	fnStreamDestroy:            "CUstream",
	fnStreamSynchronize:        "CUstream",
	fnStreamQuery:              "CUstream",
	fnStreamWaitEvent:          "CUstream, CUevent, unsigned",
	fnStreamWriteValue32:       "CUstream, CUdeviceptr, cuuint32_t, unsigned",
	fnStreamWriteValue64:       "CUstream, CUdeviceptr, cuuint64_t, unsigned",
	fnStreamWaitValue32:        "CUstream, CUdeviceptr, cuuint32_t, unsigned",
	fnStreamWaitValue64:        "CUstream, CUdeviceptr, cuuint64_t, unsigned",
	fnStreamGetCtx:             "CUstream, CUcontext *",
	fnStreamBeginCapture:       "CUstream, CUstreamCaptureMode",
	fnStreamEndCapture:         "CUstream, CUgraph *",
	fnStreamIsCapturing:        "CUstream, CUstreamCaptureStatus *",

	fnEventCreate:      "CUevent *, unsigned",
	fnEventDestroy:     "CUevent",
	fnEventRecord:      "CUevent, CUstream",
	fnEventQuery:       "CUevent",
	fnEventSynchronize: "CUevent",
	fnEventElapsedTime: "float *, CUevent, CUevent",

	fnMemAlloc:                "CUdeviceptr *, size_t",
	fnMemFree:                 "CUdeviceptr",
	fnMemGetInfo:              "size_t *, size_t *",
	fnMemcpyHtoD:              "CUdeviceptr, const void *, size_t",
	fnMemcpyDtoH:              "void *, CUdeviceptr, size_t",
	fnMemcpyDtoD:              "CUdeviceptr, CUdeviceptr, size_t",
	fnMemcpyHtoDAsync:         "CUdeviceptr, const void *, size_t, CUstream",
	fnMemcpyDtoHAsync:         "void *, CUdeviceptr, size_t, CUstream",
	fnMemcpyDtoDAsync:         "CUdeviceptr, CUdeviceptr, size_t, CUstream",
	fnMemsetD8:                "CUdeviceptr, unsigned char, size_t",
	fnMemsetD32:               "CUdeviceptr, unsigned, size_t",
	fnMemsetD8Async:           "CUdeviceptr, unsigned char, size_t, CUstream",
	fnMemsetD32Async:          "CUdeviceptr, unsigned, size_t, CUstream",
	fnMemHostAlloc:            "void **, size_t, unsigned",
	fnMemFreeHost:             "void *",
	fnMemHostRegister:         "void *, size_t, unsigned",
	fnMemHostUnregister:       "void *",
	fnMemHostGetDevicePointer: "CUdeviceptr *, void *, unsigned",
	fnMemGetAddressRange:      "CUdeviceptr *, size_t *, CUdeviceptr",
	fnPointerGetAttributes:    "unsigned, CUpointer_attribute *, void **, CUdeviceptr",

	fnMemGetAllocationGranularity:          "size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags",
	fnMemCreate:                            "CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long",
	fnMemRelease:                           "CUmemGenericAllocationHandle",
	fnMemExportToShareableHandle:           "void *, CUmemGenericAllocationHandle, CUmemAllocationHandleType, unsigned long long",
	fnMemImportFromShareableHandle:         "CUmemGenericAllocationHandle *, void *, CUmemAllocationHandleType",
	fnMemRetainAllocationHandle:            "CUmemGenericAllocationHandle *, void *",
	fnMemGetAllocationPropertiesFromHandle: "CUmemAllocationProp *, CUmemGenericAllocationHandle",
	fnMemAddressReserve:                    "CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long",
	fnMemAddressFree:                       "CUdeviceptr, size_t",
	fnMemMap:                               "CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long",
	fnMemUnmap:                             "CUdeviceptr, size_t",
	fnMemSetAccess:                         "CUdeviceptr, size_t, const CUmemAccessDesc *, size_t",

	fnIpcGetMemHandle:   "CUipcMemHandle *, CUdeviceptr",
	fnIpcOpenMemHandle:  "CUdeviceptr *, CUipcMemHandle, unsigned",
	fnIpcCloseMemHandle: "CUdeviceptr",

	fnModuleLoadDataEx:         "CUmodule *, const void *, unsigned, CUjit_option *, void **",
	fnModuleUnload:             "CUmodule",
	fnModuleGetFunction:        "CUfunction *, CUmodule, const char *",
	fnModuleGetGlobal:          "CUdeviceptr *, size_t *, CUmodule, const char *",
	fnFuncGetAttribute:         "int *, CUfunction_attribute, CUfunction",
	fnFuncSetAttribute:         "CUfunction, CUfunction_attribute, int",
	fnOccupancyMaxActiveBlocks: "int *, CUfunction, int, size_t",
	fnLaunchKernelEx:           "const CUlaunchConfig *, CUfunction, void **, void **",

	fnGraphInstantiate: "CUgraphExec *, CUgraph, unsigned long long",
	fnGraphUpload:      "CUgraphExec, CUstream",
	fnGraphLaunch:      "CUgraphExec, CUstream",
	fnGraphDestroy:     "CUgraph",
	fnGraphExecDestroy: "CUgraphExec",
}

// TestHeader compiles a program with the real cuda.h, which prints what this
// package believes to know.
func TestHeader(t *testing.T) {
	for _, pkg := range cudatest.Headers {
		t.Run(pkg, func(t *testing.T) {
			t.Parallel()
			include, err := cudatest.IncludeDir(pkg)
			require.NoError(t, err)

			lines := []string{
				"#include <cuda.h>", "#include <stddef.h>", "#include <stdio.h>",
				// As a function of a driver that 12.x knows under the plain name only.
				"#undef cuEventElapsedTime", "CUresult cuEventElapsedTime(float *, CUevent, CUevent);",
				`#define SAY(x) printf("%s|%llu\n", #x, (unsigned long long)(x));`,
				"int main(void) {",
				"SAY(CUDA_VERSION)",
			}
			for _, f := range figures() {
				line := "SAY(" + f.c + ")"
				if f.since > 0 {
					line = fmt.Sprintf("#if CUDA_VERSION >= %d\n%s\n#endif", f.since, line)
				}
				lines = append(lines, line)
			}
			for f, name := range functionNames {
				require.NotEmpty(t, parameters[f], name)
				lines = append(lines, fmt.Sprintf(`printf("%s|%%d\n", __builtin_types_compatible_p(__typeof__(%s), CUresult(%s)));`, name, name, parameters[f]))
			}
			lines = append(lines, "return 0;", "}", "")
			dir := t.TempDir()
			source, program := filepath.Join(dir, "header.c"), filepath.Join(dir, "header")
			require.NoError(t, os.WriteFile(source, []byte(strings.Join(lines, "\n")), 0o600))
			require.NoError(t, cudatest.Compile("-I", include, "-o", program, source))
			out, err := exec.Command(program).Output()
			require.NoError(t, err)

			said := map[string]string{}
			for line := range strings.Lines(string(out)) {
				key, value, ok := strings.Cut(strings.TrimSpace(line), "|")
				require.True(t, ok, line)
				said[key] = value
			}
			version, err := strconv.Atoi(said["CUDA_VERSION"])
			require.NoError(t, err)
			var compared int
			for _, f := range figures() {
				if f.since > version {
					continue
				}
				compared++
				require.Equal(t, strconv.Itoa(int(f.value)), said[f.c], "%s", f.c)
			}
			for f, name := range functionNames {
				compared++
				require.Equal(t, "1", said[name], "%s(%s) in cuda.h is another function", name, parameters[f])
			}
			require.Len(t, said, compared+1)
			codesOf(t, filepath.Join(include, "cuda.h"), pkg == cudatest.Headers[0])
		})
	}
}

// codesOf compares the names of all codes; those of the newest header are all we have.
func codesOf(t *testing.T, header string, newest bool) {
	text, err := os.ReadFile(header)
	require.NoError(t, err)
	names := map[Code]string{}
	for _, m := range regexp.MustCompile(`(?m)^ +(CUDA_(?:SUCCESS|ERROR_\w+)) *= (\d+)`).FindAllStringSubmatch(string(text), -1) {
		code, err := strconv.Atoi(m[2])
		require.NoError(t, err)
		names[Code(code)] = m[1]
	}
	require.Greater(t, len(names), 90)
	if newest {
		require.Equal(t, names, codeNames)
	}
	for code, name := range names {
		require.Equal(t, name, code.Name())
	}
}
