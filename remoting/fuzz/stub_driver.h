// A driver that does nothing, for fuzzing what stands in front of it: no address that it is given
// is ever touched. The fuzzer decides which calls fail.
#pragma once
#include <cstdlib>
#include <cstring>

#include "server/driver.h"

namespace busbar::fuzz {

inline uint32_t g_failures = 0;  // bits, one a call, in turn
inline uint32_t g_calls = 0;

inline CUresult outcome() {
  return g_failures >> (g_calls++ % 32) & 1 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

template <typename... A>
CUresult anything(A...) {
  return outcome();
}
template <typename T>
void* made() {
  static T value;
  return &value;
}

template <typename R, typename... A>
void fill(R (*&f)(A...)) {
  f = anything<A...>;
}

inline server::Driver stub_driver() {
  server::Driver cu;
#define CU(name) fill(cu.name);
  BUSBAR_DRIVER_CALLS(CU)
  BUSBAR_OPTIONAL_CALLS(CU)
#include "driver_calls.inc"
#undef CU
  cu.fresh_memory_is_zero = true;
  cu.cuMemHostAlloc = [](void** p, size_t n, unsigned) {
    *p = n < 64u << 20 ? std::malloc(n) : nullptr;
    return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  };
  cu.cuMemAddressReserve = [](CUdeviceptr* out, size_t, size_t, CUdeviceptr at,
                              unsigned long long) {
    *out = at;
    return outcome();
  };
  cu.cuMemCreate = [](CUmemGenericAllocationHandle* h, size_t, const CUmemAllocationProp*,
                      unsigned long long) {
    *h = ++g_calls;
    return outcome();
  };
  cu.cuMemAlloc = [](CUdeviceptr* p, size_t) {
    *p = 0x1000 + (++g_calls << 12);
    return outcome();
  };
  cu.cuMemcpyDtoHAsync = [](void*, CUdeviceptr from, size_t n, CUstream) {
    return from + n > 64u << 20 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  };
  cu.cuEventCreate = [](CUevent* e, unsigned) {
    *e = (CUevent)made<int>();
    return CUDA_SUCCESS;
  };
  cu.cuEventQuery = [](CUevent) {
    return CUDA_SUCCESS;
  };
  cu.cuEventSynchronize = [](CUevent) {
    return CUDA_SUCCESS;
  };
  cu.cuStreamCreateWithPriority = [](CUstream* s, unsigned, int) {
    *s = (CUstream)made<long>();
    return CUDA_SUCCESS;
  };
  cu.cuDevicePrimaryCtxRetain = [](CUcontext* c, CUdevice) {
    *c = (CUcontext)made<char>();
    return outcome();
  };
  cu.cuModuleLoadDataEx = [](CUmodule* m, const void*, unsigned, CUjit_option*, void**) {
    *m = (CUmodule)made<short>();
    return outcome();
  };
  cu.cuModuleGetFunction = [](CUfunction* f, CUmodule, const char*) {
    *f = (CUfunction)made<float>();
    return outcome();
  };
  cu.cuFuncGetParamInfo = [](CUfunction, size_t i, size_t* offset, size_t* bytes) {
    *offset = i * 8;
    *bytes = 8;
    return i < 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  };
  cu.cuModuleGetFunctionCount = [](unsigned* n, CUmodule) {
    *n = 2;
    return outcome();
  };
  cu.cuFuncGetName = [](const char** name, CUfunction) {
    *name = "f";
    return outcome();
  };
  cu.cuLinkComplete = [](CUlinkState, void** p, size_t* n) {
    *p = made<int>();
    *n = 4;
    return outcome();
  };
  cu.cuStreamBeginCapture = [](CUstream, CUstreamCaptureMode) {
    return outcome();
  };
  cu.cuStreamEndCapture = [](CUstream, CUgraph* g) {
    *g = (CUgraph)made<double>();
    return outcome();
  };
  cu.cuStreamIsCapturing = [](CUstream, CUstreamCaptureStatus* s) {
    *s = outcome() ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  };
  cu.cuStreamGetCaptureInfo = [](CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph* g,
                                 const CUgraphNode** nodes, const CUgraphEdgeData** edges,
                                 size_t* n) {
    *g = (CUgraph)made<double>();
    *nodes = nullptr;
    *edges = nullptr;
    *n = 0;
    return outcome();
  };
  cu.cuGraphCreate = [](CUgraph* g, unsigned) {
    *g = (CUgraph)made<double>();
    return outcome();
  };
  cu.cuGraphInstantiateWithParams = [](CUgraphExec* e, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS*) {
    *e = (CUgraphExec)made<bool>();
    return outcome();
  };
  cu.cuGraphAddEmptyNode = [](CUgraphNode* n, CUgraph, const CUgraphNode*, size_t) {
    *n = (CUgraphNode)made<unsigned>();
    return outcome();
  };
  cu.cuGraphKernelNodeGetParams = [](CUgraphNode, CUDA_KERNEL_NODE_PARAMS* p) {
    *p = {};
    p->func = (CUfunction)made<float>();
    return outcome();
  };
  cu.cuGraphMemcpyNodeGetParams = [](CUgraphNode, CUDA_MEMCPY3D* p) {
    *p = {};
    return outcome();
  };
  cu.cuGraphHostNodeGetParams = [](CUgraphNode, CUDA_HOST_NODE_PARAMS* p) {
    *p = {};
    return outcome();
  };
  cu.cuGraphNodeGetType = [](CUgraphNode, CUgraphNodeType* t) {
    *t = (CUgraphNodeType)(g_calls % 5);
    return outcome();
  };
  cu.cuGraphGetNodes = [](CUgraph, CUgraphNode* list, size_t* n) {
    if (list)
      for (size_t i = 0; i < *n; ++i) list[i] = (CUgraphNode)made<unsigned>();
    *n = 1;
    return outcome();
  };
  cu.cuArray3DCreate = [](CUarray* a, const CUDA_ARRAY3D_DESCRIPTOR*) {
    *a = (CUarray)made<int>();
    return outcome();
  };
  cu.cuMipmappedArrayCreate = [](CUmipmappedArray* a, const CUDA_ARRAY3D_DESCRIPTOR*, unsigned) {
    *a = (CUmipmappedArray)made<int>();
    return outcome();
  };
  cu.cuLaunchHostFunc = [](CUstream, CUhostFn, void*) {
    return CUDA_ERROR_NOT_SUPPORTED;
  };  // nobody would run it
  cu.cuGetExportTable = nullptr;
  return cu;
}

}  // namespace busbar::fuzz
