package cuda

// function is a function of the driver that this package calls.
type function int

const (
	fnInit function = iota
	fnDriverGetVersion
	fnGetErrorString

	fnDeviceGet
	fnDeviceGetCount
	fnDeviceGetName
	fnDeviceGetUuid
	fnDeviceGetAttribute
	fnDeviceGetPCIBusId
	fnDeviceTotalMem
	fnDeviceCanAccessPeer
	fnDeviceGetP2PAttribute

	fnDevicePrimaryCtxRetain
	fnDevicePrimaryCtxRelease
	fnCtxPushCurrent
	fnCtxPopCurrent
	fnCtxGetCurrent
	fnCtxSynchronize
	fnCtxEnablePeerAccess
	fnCtxGetStreamPriorityRange

	fnStreamCreateWithPriority
	fnStreamDestroy
	fnStreamSynchronize
	fnStreamQuery
	fnStreamWaitEvent
	fnStreamWriteValue32
	fnStreamWriteValue64
	fnStreamWaitValue32
	fnStreamWaitValue64
	fnStreamGetCtx
	fnStreamBeginCapture
	fnStreamEndCapture
	fnStreamIsCapturing

	fnEventCreate
	fnEventDestroy
	fnEventRecord
	fnEventQuery
	fnEventSynchronize
	fnEventElapsedTime

	fnMemAlloc
	fnMemFree
	fnMemGetInfo
	fnMemcpyHtoD
	fnMemcpyDtoH
	fnMemcpyDtoD
	fnMemcpyHtoDAsync
	fnMemcpyDtoHAsync
	fnMemcpyDtoDAsync
	fnMemsetD8
	fnMemsetD32
	fnMemsetD8Async
	fnMemsetD32Async
	fnMemHostAlloc
	fnMemFreeHost
	fnMemHostRegister
	fnMemHostUnregister
	fnMemHostGetDevicePointer
	fnMemGetAddressRange
	fnPointerGetAttributes

	fnMemGetAllocationGranularity
	fnMemCreate
	fnMemRelease
	fnMemExportToShareableHandle
	fnMemImportFromShareableHandle
	fnMemRetainAllocationHandle
	fnMemGetAllocationPropertiesFromHandle
	fnMemAddressReserve
	fnMemAddressFree
	fnMemMap
	fnMemUnmap
	fnMemSetAccess

	fnIpcGetMemHandle
	fnIpcOpenMemHandle
	fnIpcCloseMemHandle

	fnModuleLoadDataEx
	fnModuleUnload
	fnModuleGetFunction
	fnModuleGetGlobal
	fnFuncGetAttribute
	fnFuncSetAttribute
	fnOccupancyMaxActiveBlocks
	fnLaunchKernelEx

	fnGraphInstantiate
	fnGraphUpload
	fnGraphLaunch
	fnGraphDestroy
	fnGraphExecDestroy

	functionCount
)

// functionNames are the names in the driver's library. Where a function has
// changed, its name there has a version, and cuda.h lets the plain name mean
// one of them; a test checks that these take the arguments we give them.
var functionNames = [functionCount]string{
	fnInit:             "cuInit",
	fnDriverGetVersion: "cuDriverGetVersion",
	fnGetErrorString:   "cuGetErrorString",

	fnDeviceGet:             "cuDeviceGet",
	fnDeviceGetCount:        "cuDeviceGetCount",
	fnDeviceGetName:         "cuDeviceGetName",
	fnDeviceGetUuid:         "cuDeviceGetUuid_v2",
	fnDeviceGetAttribute:    "cuDeviceGetAttribute",
	fnDeviceGetPCIBusId:     "cuDeviceGetPCIBusId",
	fnDeviceTotalMem:        "cuDeviceTotalMem_v2",
	fnDeviceCanAccessPeer:   "cuDeviceCanAccessPeer",
	fnDeviceGetP2PAttribute: "cuDeviceGetP2PAttribute",

	fnDevicePrimaryCtxRetain:    "cuDevicePrimaryCtxRetain",
	fnDevicePrimaryCtxRelease:   "cuDevicePrimaryCtxRelease_v2",
	fnCtxPushCurrent:            "cuCtxPushCurrent_v2",
	fnCtxPopCurrent:             "cuCtxPopCurrent_v2",
	fnCtxGetCurrent:             "cuCtxGetCurrent",
	fnCtxSynchronize:            "cuCtxSynchronize",
	fnCtxEnablePeerAccess:       "cuCtxEnablePeerAccess",
	fnCtxGetStreamPriorityRange: "cuCtxGetStreamPriorityRange",

	fnStreamCreateWithPriority: "cuStreamCreateWithPriority",
	fnStreamDestroy:            "cuStreamDestroy_v2",
	fnStreamSynchronize:        "cuStreamSynchronize",
	fnStreamQuery:              "cuStreamQuery",
	fnStreamWaitEvent:          "cuStreamWaitEvent",
	fnStreamWriteValue32:       "cuStreamWriteValue32_v2",
	fnStreamWriteValue64:       "cuStreamWriteValue64_v2",
	fnStreamWaitValue32:        "cuStreamWaitValue32_v2",
	fnStreamWaitValue64:        "cuStreamWaitValue64_v2",
	fnStreamGetCtx:             "cuStreamGetCtx",
	fnStreamBeginCapture:       "cuStreamBeginCapture_v2",
	fnStreamEndCapture:         "cuStreamEndCapture",
	fnStreamIsCapturing:        "cuStreamIsCapturing",

	fnEventCreate:      "cuEventCreate",
	fnEventDestroy:     "cuEventDestroy_v2",
	fnEventRecord:      "cuEventRecord",
	fnEventQuery:       "cuEventQuery",
	fnEventSynchronize: "cuEventSynchronize",
	fnEventElapsedTime: "cuEventElapsedTime", // _v2 takes the same arguments, and older drivers lack it

	fnMemAlloc:                "cuMemAlloc_v2",
	fnMemFree:                 "cuMemFree_v2",
	fnMemGetInfo:              "cuMemGetInfo_v2",
	fnMemcpyHtoD:              "cuMemcpyHtoD_v2",
	fnMemcpyDtoH:              "cuMemcpyDtoH_v2",
	fnMemcpyDtoD:              "cuMemcpyDtoD_v2",
	fnMemcpyHtoDAsync:         "cuMemcpyHtoDAsync_v2",
	fnMemcpyDtoHAsync:         "cuMemcpyDtoHAsync_v2",
	fnMemcpyDtoDAsync:         "cuMemcpyDtoDAsync_v2",
	fnMemsetD8:                "cuMemsetD8_v2",
	fnMemsetD32:               "cuMemsetD32_v2",
	fnMemsetD8Async:           "cuMemsetD8Async",
	fnMemsetD32Async:          "cuMemsetD32Async",
	fnMemHostAlloc:            "cuMemHostAlloc",
	fnMemFreeHost:             "cuMemFreeHost",
	fnMemHostRegister:         "cuMemHostRegister_v2",
	fnMemHostUnregister:       "cuMemHostUnregister",
	fnMemHostGetDevicePointer: "cuMemHostGetDevicePointer_v2",
	fnMemGetAddressRange:      "cuMemGetAddressRange_v2",
	fnPointerGetAttributes:    "cuPointerGetAttributes",

	fnMemGetAllocationGranularity:          "cuMemGetAllocationGranularity",
	fnMemCreate:                            "cuMemCreate",
	fnMemRelease:                           "cuMemRelease",
	fnMemExportToShareableHandle:           "cuMemExportToShareableHandle",
	fnMemImportFromShareableHandle:         "cuMemImportFromShareableHandle",
	fnMemRetainAllocationHandle:            "cuMemRetainAllocationHandle",
	fnMemGetAllocationPropertiesFromHandle: "cuMemGetAllocationPropertiesFromHandle",
	fnMemAddressReserve:                    "cuMemAddressReserve",
	fnMemAddressFree:                       "cuMemAddressFree",
	fnMemMap:                               "cuMemMap",
	fnMemUnmap:                             "cuMemUnmap",
	fnMemSetAccess:                         "cuMemSetAccess",

	fnIpcGetMemHandle:   "cuIpcGetMemHandle",
	fnIpcOpenMemHandle:  "cuIpcOpenMemHandle_v2",
	fnIpcCloseMemHandle: "cuIpcCloseMemHandle",

	fnModuleLoadDataEx:         "cuModuleLoadDataEx",
	fnModuleUnload:             "cuModuleUnload",
	fnModuleGetFunction:        "cuModuleGetFunction",
	fnModuleGetGlobal:          "cuModuleGetGlobal_v2",
	fnFuncGetAttribute:         "cuFuncGetAttribute",
	fnFuncSetAttribute:         "cuFuncSetAttribute",
	fnOccupancyMaxActiveBlocks: "cuOccupancyMaxActiveBlocksPerMultiprocessor",
	fnLaunchKernelEx:           "cuLaunchKernelEx",

	fnGraphInstantiate: "cuGraphInstantiateWithFlags",
	fnGraphUpload:      "cuGraphUpload",
	fnGraphLaunch:      "cuGraphLaunch",
	fnGraphDestroy:     "cuGraphDestroy",
	fnGraphExecDestroy: "cuGraphExecDestroy",
}
