// CUDA entry points: forms of functions that differ from the current form in their arguments only.
// They only call that form, so the software GPU's driver contains this file too.
#include <cuda.h>

#include "export.h"

#undef cuStreamBeginCapture
#undef cuStreamGetCaptureInfo
#undef cuStreamUpdateCaptureDependencies
#undef cuGraphAddNode
#undef cuGraphExecUpdate
#undef cuGraphInstantiate

API CUresult cuStreamBeginCapture(CUstream h) {
  return cuStreamBeginCapture_v2(h, CU_STREAM_CAPTURE_MODE_GLOBAL);
}
API CUresult cuStreamGetCaptureInfo(CUstream h, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return cuStreamGetCaptureInfo_v3(h, status, id, nullptr, nullptr, nullptr, nullptr);
}
API CUresult cuStreamUpdateCaptureDependencies(CUstream h, CUgraphNode* nodes, size_t n,
                                               unsigned flags) {
  return cuStreamUpdateCaptureDependencies_v2(h, nodes, nullptr, n, flags);
}
API CUresult cuStreamGetCtx_v2(CUstream h, CUcontext* out, CUgreenCtx* green) {
  if (green) *green = nullptr;
  return cuStreamGetCtx(h, out);
}
API CUresult cuLaunchHostFunc_v2(CUstream h, CUhostFn f, void* data, unsigned) {
  return cuLaunchHostFunc(h, f, data);
}
API CUresult cuKernelGetParamCount(CUkernel k, size_t* count) {
  return cuFuncGetParamCount((CUfunction)k, count);
}

API CUresult cuGraphAddNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                            CUgraphNodeParams* p) {
  return cuGraphAddNode_v2(out, g, d, nullptr, n, p);
}
API CUresult cuGraphAddNode_v3(CUgraphNode* out, CUgraph g, const CUgraphNode* d,
                               const CUgraphEdgeData* edges, size_t n, CUgraphNodeParams* p) {
  return cuGraphAddNode_v2(out, g, d, edges, n, p);
}
API CUresult cuGraphExecUpdate(CUgraphExec e, CUgraph g, CUgraphNode* node,
                               CUgraphExecUpdateResult* result) {
  CUgraphExecUpdateResultInfo info{};
  CUresult r = cuGraphExecUpdate_v2(e, g, &info);
  if (node) *node = info.errorNode;
  if (result) *result = info.result;
  return r;
}
API CUresult cuGraphInstantiate_v2(CUgraphExec* out, CUgraph g, CUgraphNode* node, char* log,
                                   size_t room) {
  CUDA_GRAPH_INSTANTIATE_PARAMS p{};
  CUresult r = cuGraphInstantiateWithParams(out, g, &p);
  if (node) *node = p.hErrNode_out;
  if (log && room) *log = 0;
  return r;
}
API CUresult cuGraphInstantiate(CUgraphExec* out, CUgraph g, CUgraphNode* node, char* log,
                                size_t room) {
  return cuGraphInstantiate_v2(out, g, node, log, room);
}

static bool on_device(const CUmemLocation* where, CUmemAllocationType type) {
  return where && where->type == CU_MEM_LOCATION_TYPE_DEVICE &&
         type == CU_MEM_ALLOCATION_TYPE_PINNED;
}
API CUresult cuMemGetDefaultMemPool(CUmemoryPool* out, CUmemLocation* where,
                                    CUmemAllocationType type) {
  return on_device(where, type) ? cuDeviceGetDefaultMemPool(out, where->id)
                                : CUDA_ERROR_NOT_SUPPORTED;
}
API CUresult cuMemGetMemPool(CUmemoryPool* out, CUmemLocation* where, CUmemAllocationType type) {
  return on_device(where, type) ? cuDeviceGetMemPool(out, where->id) : CUDA_ERROR_NOT_SUPPORTED;
}
API CUresult cuMemSetMemPool(CUmemLocation* where, CUmemAllocationType type, CUmemoryPool h) {
  return on_device(where, type) ? cuDeviceSetMemPool(where->id, h) : CUDA_ERROR_NOT_SUPPORTED;
}
