// A driver for fuzzers and unit tests. It computes nothing and accesses no address that it is
// given. The bits of g_failures decide which calls fail.
#pragma once
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "server/driver.h"

namespace busbar::fuzz {

inline uint32_t g_failures = 0;  // one bit for each call, in turn
inline uint32_t g_calls = 0;
inline std::atomic<bool> g_events_pending{false};  // no event completes

inline CUresult outcome() {
  return g_failures >> (g_calls++ % 32) & 1 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

template <typename... A>
CUresult stub(A...) {
  return outcome();
}
// Returns a handle; each type has one.
template <typename T>
void* handle() {
  static T value;
  return &value;
}

// Handles of graphs and nodes are known before, so that an input can name them. A graph, and the
// executable graph that is made from it, is the set of the kinds of its nodes, with a bit for each
// CUgraphNodeType. A node is its kind plus one.
constexpr uint64_t kNodeKinds = 8;
constexpr uint64_t kEveryKind = (1u << kNodeKinds) - 1;

inline CUgraphNode node_handle(uint64_t kind) {
  return (CUgraphNode)(kind + 1);
}
inline bool has_node(CUgraph g, uint64_t kind) {
  return (uint64_t)g >> kind & 1;
}

template <typename R, typename... A>
void set_stub(R (*&f)(A...)) {
  f = stub<A...>;
}

inline void stub_memory(server::Driver& cu) {
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
    return from + n > 4u << 20 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  };
  cu.cuArray3DCreate = [](CUarray* a, const CUDA_ARRAY3D_DESCRIPTOR*) {
    *a = (CUarray)handle<int>();
    return outcome();
  };
  cu.cuMipmappedArrayCreate = [](CUmipmappedArray* a, const CUDA_ARRAY3D_DESCRIPTOR*, unsigned) {
    *a = (CUmipmappedArray)handle<int>();
    return outcome();
  };
}

inline void stub_streams_and_events(server::Driver& cu) {
  cu.cuEventCreate = [](CUevent* e, unsigned) {
    *e = (CUevent)handle<int>();
    return CUDA_SUCCESS;
  };
  cu.cuEventQuery = [](CUevent) {
    return g_events_pending ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
  };
  cu.cuEventSynchronize = [](CUevent) {
    return CUDA_SUCCESS;
  };
  cu.cuStreamCreateWithPriority = [](CUstream* s, unsigned, int) {
    *s = (CUstream)handle<long>();
    return CUDA_SUCCESS;
  };
  cu.cuDevicePrimaryCtxRetain = [](CUcontext* c, CUdevice) {
    *c = (CUcontext)handle<char>();
    return outcome();
  };
}

inline void stub_modules(server::Driver& cu) {
  cu.cuModuleLoadDataEx = [](CUmodule* m, const void*, unsigned, CUjit_option*, void**) {
    *m = (CUmodule)handle<short>();
    return outcome();
  };
  cu.cuModuleGetFunction = [](CUfunction* f, CUmodule, const char*) {
    *f = (CUfunction)handle<float>();
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
    *p = handle<int>();
    *n = 4;
    return outcome();
  };
}

inline void stub_capture(server::Driver& cu) {
  cu.cuStreamBeginCapture = [](CUstream, CUstreamCaptureMode) {
    return outcome();
  };
  cu.cuStreamEndCapture = [](CUstream, CUgraph* g) {
    *g = (CUgraph)kEveryKind;
    return outcome();
  };
  cu.cuStreamIsCapturing = [](CUstream, CUstreamCaptureStatus* s) {
    *s = outcome() ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  };
  cu.cuStreamGetCaptureInfo = [](CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph* g,
                                 const CUgraphNode** nodes, const CUgraphEdgeData** edges,
                                 size_t* n) {
    *g = (CUgraph)kEveryKind;
    *nodes = nullptr;
    *edges = nullptr;
    *n = 0;
    return outcome();
  };
}

inline void stub_graphs(server::Driver& cu) {
  cu.cuGraphCreate = [](CUgraph* g, unsigned kinds) {
    *g = (CUgraph)(kinds ? kinds & kEveryKind : kEveryKind);
    return outcome();
  };
  cu.cuGraphInstantiateWithParams = [](CUgraphExec* e, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS*) {
    *e = (CUgraphExec)g;
    return outcome();
  };
  cu.cuGraphGetNodes = [](CUgraph g, CUgraphNode* list, size_t* n) {
    size_t found = 0;
    for (uint64_t kind = 0; kind < kNodeKinds; ++kind)
      if (has_node(g, kind) && (!list || found < *n)) {
        if (list) list[found] = node_handle(kind);
        ++found;
      }
    *n = found;
    return outcome();
  };
}

inline void stub_event_nodes(server::Driver& cu) {
  cu.cuGraphAddEventRecordNode = [](CUgraphNode* n, CUgraph, const CUgraphNode*, size_t, CUevent) {
    *n = node_handle(CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    return outcome();
  };
  cu.cuGraphAddEventWaitNode = [](CUgraphNode* n, CUgraph, const CUgraphNode*, size_t, CUevent) {
    *n = node_handle(CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    return outcome();
  };
  cu.cuGraphEventRecordNodeGetEvent =
      cu.cuGraphEventWaitNodeGetEvent = [](CUgraphNode, CUevent* e) {
        *e = (CUevent)handle<int>();  // as cuEventCreate
        return outcome();
      };
}

inline void stub_graph_nodes(server::Driver& cu) {
  cu.cuGraphKernelNodeGetParams = [](CUgraphNode, CUDA_KERNEL_NODE_PARAMS* p) {
    *p = {};
    p->func = (CUfunction)handle<float>();
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
  cu.cuGraphNodeGetType = [](CUgraphNode n, CUgraphNodeType* t) {
    *t = (CUgraphNodeType)((uint64_t)n - 1);
    return outcome();
  };
  cu.cuGraphAddEmptyNode = [](CUgraphNode* n, CUgraph, const CUgraphNode*, size_t) {
    *n = node_handle(CU_GRAPH_NODE_TYPE_EMPTY);
    return outcome();
  };
  // All but another child graph.
  cu.cuGraphChildGraphNodeGetGraph = [](CUgraphNode, CUgraph* g) {
    *g = (CUgraph)(kEveryKind & ~(1u << CU_GRAPH_NODE_TYPE_GRAPH));
    return outcome();
  };
}

inline server::Driver stub_driver() {
  server::Driver cu;
#define CU(name) set_stub(cu.name);
  BUSBAR_DRIVER_CALLS(CU)
  BUSBAR_OPTIONAL_CALLS(CU)
#include "driver_calls.inc"
#undef CU
  cu.fresh_memory_is_zero = true;
  stub_memory(cu);
  stub_streams_and_events(cu);
  stub_modules(cu);
  stub_capture(cu);
  stub_graphs(cu);
  stub_graph_nodes(cu);
  stub_event_nodes(cu);
  cu.cuLaunchHostFunc = [](CUstream, CUhostFn, void*) {
    return CUDA_ERROR_NOT_SUPPORTED;
  };
  cu.cuGetExportTable = nullptr;
  return cu;
}

}  // namespace busbar::fuzz
