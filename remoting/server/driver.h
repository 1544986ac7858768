// The CUDA driver of this node: NVIDIA's or the software GPU's. The session server calls it only
// through this table.
//
// Thread safety: constant after load().
#pragma once
#include <cuda.h>

#include <string>

namespace busbar::server {

// clang-format off
#define BUSBAR_DRIVER_CALLS(CU)                                                                   \
  CU(cuInit) CU(cuDriverGetVersion)                                                               \
  CU(cuDeviceGetCount) CU(cuDeviceGet) CU(cuDeviceGetName) CU(cuDeviceGetUuid)                    \
  CU(cuDeviceTotalMem) CU(cuDeviceGetAttribute)                                                   \
  CU(cuDevicePrimaryCtxRetain) CU(cuDevicePrimaryCtxRelease) CU(cuCtxSetCurrent)                  \
  CU(cuCtxGetCurrent) CU(cuCtxGetDevice) CU(cuCtxSynchronize) CU(cuCtxSetLimit)                   \
  CU(cuMemAddressReserve) CU(cuMemAddressFree) CU(cuMemCreate) CU(cuMemMap) CU(cuMemSetAccess)    \
  CU(cuMemUnmap) CU(cuMemRelease) CU(cuMemAlloc) CU(cuMemFree) CU(cuMemHostAlloc)                 \
  CU(cuMemFreeHost) CU(cuMemcpyHtoDAsync) CU(cuMemcpyDtoHAsync) CU(cuMemGetInfo)                  \
  CU(cuStreamCreateWithPriority) CU(cuStreamDestroy) CU(cuStreamWaitEvent)                        \
  CU(cuStreamSynchronize)                                                                         \
  CU(cuEventCreate) CU(cuEventDestroy) CU(cuEventRecord) CU(cuEventQuery)                         \
  CU(cuEventSynchronize) CU(cuEventElapsedTime)                                                   \
  CU(cuModuleLoadDataEx) CU(cuModuleUnload) CU(cuModuleGetFunction) CU(cuModuleGetGlobal)         \
  CU(cuFuncGetAttribute) CU(cuFuncGetParamInfo) CU(cuFuncLoad)                                    \
  CU(cuLinkCreate) CU(cuLinkAddData) CU(cuLinkComplete) CU(cuLinkDestroy)                         \
  CU(cuLaunchKernelEx)

// Functions that a driver may lack: records that need them fail with CUDA_ERROR_NOT_SUPPORTED.
#define BUSBAR_OPTIONAL_CALLS(CU)                                                                 \
  CU(cuStreamBeginCapture) CU(cuStreamBeginCaptureToGraph) CU(cuStreamEndCapture)                 \
  CU(cuStreamIsCapturing) CU(cuStreamGetCaptureInfo) CU(cuStreamUpdateCaptureDependencies)        \
  CU(cuGraphInstantiateWithParams) CU(cuGraphLaunch)                                              \
  CU(cuGraphAddKernelNode) CU(cuGraphKernelNodeSetParams) CU(cuGraphExecKernelNodeSetParams)      \
  CU(cuGraphKernelNodeGetParams)                                                                  \
  CU(cuGraphAddMemcpyNode) CU(cuGraphMemcpyNodeSetParams) CU(cuGraphExecMemcpyNodeSetParams)      \
  CU(cuGraphMemcpyNodeGetParams)                                                                  \
  CU(cuGraphAddNode) CU(cuGraphEventRecordNodeGetEvent) CU(cuGraphEventWaitNodeGetEvent)          \
  CU(cuGraphAddBatchMemOpNode) CU(cuGraphBatchMemOpNodeSetParams)                                 \
  CU(cuGraphExecBatchMemOpNodeSetParams) CU(cuGraphBatchMemOpNodeGetParams)                       \
  CU(cuGraphAddHostNode) CU(cuGraphHostNodeSetParams) CU(cuGraphExecHostNodeSetParams)            \
  CU(cuGraphHostNodeGetParams)                                                                    \
  CU(cuLaunchHostFunc) CU(cuMemcpy3DAsync)                                                        \
  CU(cuArray3DCreate) CU(cuArrayDestroy) CU(cuMipmappedArrayCreate) CU(cuMipmappedArrayDestroy)   \
  CU(cuMemExportToShareableHandle) CU(cuMemImportFromShareableHandle)                             \
  CU(cuTensorMapEncodeTiled) CU(cuTensorMapEncodeIm2col) CU(cuTensorMapEncodeIm2colWide)          \
  CU(cuTensorMapReplaceAddress)                                                                   \
  CU(cuGetExportTable)                                                                            \
  CU(cuModuleGetFunctionCount) CU(cuModuleEnumerateFunctions) CU(cuFuncGetName)                   \
  CU(cuMemHostRegister) CU(cuMemHostUnregister) CU(cuMemHostGetDevicePointer)                     \
  CU(cuOccupancyMaxActiveClusters) CU(cuOccupancyMaxPotentialClusterSize)
// clang-format on

struct Driver {
#define CU(name) decltype(&::name) name = nullptr;
  BUSBAR_DRIVER_CALLS(CU)
  BUSBAR_OPTIONAL_CALLS(CU)
#include "driver_calls.inc"
#undef CU
  bool fresh_memory_is_zero = false;  // new memory is cleared by the driver
  bool software = false;              // the software GPU

  // Loads a library by the name that dlopen() takes. False, with a reason, if it is missing or
  // lacks a function of BUSBAR_DRIVER_CALLS.
  bool load(const std::string& path, std::string& error);
};

}  // namespace busbar::server
