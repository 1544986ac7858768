// CUDA entry points: stream-ordered allocation and memory pools.
#include <mutex>

#include "softgpu/api/require.h"
#include "softgpu/driver/capture.h"
#include "softgpu/driver/graph.h"
#include "softgpu/driver/memory.h"
#include "softgpu/driver/memory_node.h"
#include "softgpu/driver/pool.h"
#include "softgpu/driver/stream_queue.h"

using namespace softgpu;

// A captured allocation is a node of the graph.
static CUresult capture_allocation(Context* c, int ordinal, const StreamRef& s, CUdeviceptr* out,
                                   size_t bytes) {
  CUDA_MEM_ALLOC_NODE_PARAMS p{};
  p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {ordinal}};
  p.bytesize = bytes;
  NodeParams q;
  if (CUresult r = make_allocation_node(c, p, q)) return r;
  CUdeviceptr at = q.allocation.dptr;
  CUresult r = capture_node(s, std::move(q));
  if (!r) *out = at;
  return r;
}

// A captured free is a node of the graph. It needs memory that a graph allocates; an attempt to
// free other memory invalidates the capture.
static CUresult capture_free(const StreamRef& s, CUdeviceptr p) {
  GraphMemoryRef memory = find_graph_memory(p);
  if (!memory) {
    invalidate_capture_of(s);
    return CUDA_ERROR_INVALID_VALUE;
  }
  NodeParams q;
  if (CUresult r = make_free_node(memory, q)) return r;
  CUresult r = capture_node(s, std::move(q));
  if (r) forget_free_node(*memory);
  return r;
}

API CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool h, CUstream hs) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_LIVE(Pool, p, h);
  REQUIRE_WORK_STREAM(s, hs, c);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = 0;
  if (!bytes) return CUDA_SUCCESS;
  if (is_captured(s)) return capture_allocation(c, p->ordinal, s, out, bytes);
  if (CUresult r = allocate_memory(c, bytes, out)) return r;
  add_to_pool(p, *out, bytes);
  return CUDA_SUCCESS;
}

API CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream s) {
  REQUIRE_CURRENT_CONTEXT(c);
  return cuMemAllocFromPoolAsync(out, bytes, (CUmemoryPool)current_pool(c->device->ordinal), s);
}

API CUresult cuMemFreeAsync(CUdeviceptr p, CUstream hs) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_WORK_STREAM(s, hs, c);
  if (!p) return CUDA_SUCCESS;
  {
    std::lock_guard lock(driver()->mutex);
    auto it = driver()->allocations.find(p);
    if (it == driver()->allocations.end() || it->second.kind != Allocation::device)
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (is_captured(s)) return capture_free(s, p);
  CUresult status;
  if (free_graph_memory(p, status)) return status;
  enqueue(s, [p] {
    release_memory(p);
    return CUDA_SUCCESS;
  });
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice dev) {
  REQUIRE_DRIVER();
  if (!device_at(dev)) return CUDA_ERROR_INVALID_DEVICE;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUmemoryPool)default_pool(dev);
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetMemPool(CUmemoryPool* out, CUdevice dev) {
  REQUIRE_DRIVER();
  if (!device_at(dev)) return CUDA_ERROR_INVALID_DEVICE;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUmemoryPool)current_pool(dev);
  return CUDA_SUCCESS;
}
API CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool h) {
  REQUIRE_LIVE(Pool, p, h);
  if (!device_at(dev) || p->ordinal != dev) return CUDA_ERROR_INVALID_DEVICE;
  set_current_pool(dev, p);
  return CUDA_SUCCESS;
}

API CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* props) {
  REQUIRE_DRIVER();
  if (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  if (!device_at(props->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  auto* p = new Pool;
  p->ordinal = props->location.id;
  p->attributes.max_bytes = props->maxSize;
  add_handle(p);
  *out = (CUmemoryPool)p;
  return CUDA_SUCCESS;
}
API CUresult cuMemPoolDestroy(CUmemoryPool h) {
  REQUIRE_LIVE(Pool, p, h);
  if (p == default_pool(p->ordinal)) return CUDA_ERROR_INVALID_VALUE;
  remove_handle(p);
  return CUDA_SUCCESS;  // the object stays: its memory may still be in use
}
API CUresult cuMemPoolTrimTo(CUmemoryPool h, size_t) {
  REQUIRE_LIVE(Pool, p, h);
  (void)p;
  return CUDA_SUCCESS;  // pools keep no free memory
}
// Return whether a pool can have the access: it is for a device, and not less than its own.
static CUresult check_access(const Pool* p, const CUmemAccessDesc& a) {
  if (a.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  if (!device_at(a.location.id)) return CUDA_ERROR_INVALID_DEVICE;
  bool none = a.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE;
  if (!none && a.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return CUDA_ERROR_INVALID_VALUE;
  return none && a.location.id == p->ordinal ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
API CUresult cuMemPoolSetAccess(CUmemoryPool h, const CUmemAccessDesc* map, size_t n) {
  REQUIRE_LIVE(Pool, p, h);
  if (n && !map) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < n; i++)
    if (CUresult r = check_access(p, map[i])) return r;
  std::lock_guard lock(p->mutex);
  for (size_t i = 0; i < n; i++) {
    uint64_t bit = 1ULL << map[i].location.id;
    p->peers = map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? p->peers & ~bit : p->peers | bit;
  }
  return CUDA_SUCCESS;
}
API CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool h, CUmemLocation* where) {
  REQUIRE_LIVE(Pool, p, h);
  if (!flags || !where || where->type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  if (!device_at(where->id)) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(p->mutex);
  bool access = where->id == p->ordinal || p->peers >> where->id & 1;
  *flags = access ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

API CUresult cuMemPoolSetAttribute(CUmemoryPool h, CUmemPool_attribute which, void* value) {
  REQUIRE_LIVE(Pool, p, h);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(p->mutex);
  return p->attributes.set(which, value);
}

API CUresult cuMemPoolGetAttribute(CUmemoryPool h, CUmemPool_attribute which, void* value) {
  REQUIRE_LIVE(Pool, p, h);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(p->mutex);
  return p->attributes.get(which, p->ordinal, value);
}
