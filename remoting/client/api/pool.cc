// CUDA entry points: stream-ordered allocation and memory pools.
#include "client/pool.h"

#include "client/api/captured_node.h"
#include "client/api/require.h"
#include "client/call.h"
#include "client/device_memory.h"
#include "client/graph_memory.h"

using namespace busbar;
using namespace busbar::client;

#define REQUIRE_POOL(p, handle)  \
  REQUIRE_SESSION;               \
  Pool* p = find_pool((handle)); \
  if (!p) return CUDA_ERROR_INVALID_VALUE

// A captured allocation is a node of the graph.
static CUresult capture_allocation(const Device* d, CUdeviceptr* out, size_t bytes, CUstream s) {
  CUDA_MEM_ALLOC_NODE_PARAMS p{};
  p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {d->ordinal}};
  p.bytesize = bytes;
  CUresult r = add_captured_node(
      s, [&](CUgraphNode* node, CUgraph g, const CUgraphNode* after, size_t count) {
        return cuGraphAddMemAllocNode(node, g, after, count, &p);
      });
  if (!r) *out = p.dptr;
  return r;
}

// A captured free is a node of the graph. It needs memory that a graph allocates; an attempt to
// free other memory invalidates the capture.
static CUresult capture_free(Stream& stream, CUdeviceptr p, CUstream s) {
  if (!find_graph_memory(p)) {
    forbid_in_capture(stream);
    return CUDA_ERROR_INVALID_VALUE;
  }
  return add_captured_node(
      s, [&](CUgraphNode* node, CUgraph g, const CUgraphNode* after, size_t count) {
        return cuGraphAddMemFreeNode(node, g, after, count, p);
      });
}

static CUresult allocate_from(Pool* p, CUdeviceptr* out, size_t bytes, CUstream h) {
  Call call;
  if (CUresult r = call.begin(h)) return r;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = 0;
  if (!bytes) return CUDA_SUCCESS;
  if (!p) p = current_pool(call.context()->device);
  if (call.stream()->capturing) return capture_allocation(p->device, out, bytes, h);
  uint64_t at = 0;
  if (CUresult r = allocate_device_memory(call.context(), bytes, at)) return r;
  session()->addresses.add({Region::device, at, bytes, 0, call.context(), 0});
  note_pool_allocation(p, at, bytes);
  *out = at;
  return CUDA_SUCCESS;
}

API CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream s) {
  return allocate_from(nullptr, out, bytes, s);
}
API CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool h, CUstream s) {
  REQUIRE_POOL(p, h);
  return allocate_from(p, out, bytes, s);
}

API CUresult cuMemFreeAsync(CUdeviceptr p, CUstream h) {
  Call call;
  if (CUresult r = call.begin(h)) return r;
  if (!p) return CUDA_SUCCESS;
  if (session()->addresses.find(p).base != p) return CUDA_ERROR_INVALID_VALUE;
  if (call.stream()->capturing) return capture_free(*call.stream(), p, h);
  CUresult status;
  if (free_graph_memory(p, status)) return status;
  Region r;
  if (!session()->addresses.remove(p, Region::device, &r)) return CUDA_ERROR_INVALID_VALUE;
  Stream* s = call.stream();
  uint64_t last = s->progress.last.load();
  Heap::Done done =
      s->legacy ? submitted_work_done(call.context())
                : Heap::Done([stream = retain(s), last] { return stream->progress.reached(last); });
  note_pool_free(p, done);
  return release_device_memory(r, done);
}

API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice dev) {
  REQUIRE_DEVICE(d, dev);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUmemoryPool)default_pool(d)->handle;
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetMemPool(CUmemoryPool* out, CUdevice dev) {
  REQUIRE_DEVICE(d, dev);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUmemoryPool)current_pool(d)->handle;
  return CUDA_SUCCESS;
}
API CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool h) {
  REQUIRE_POOL(p, h);
  REQUIRE_DEVICE(d, dev);
  if (p->device != d) return CUDA_ERROR_INVALID_DEVICE;
  set_current_pool(d, p);
  return CUDA_SUCCESS;
}

API CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* props) {
  REQUIRE_SESSION;
  if (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  REQUIRE_DEVICE(d, props->location.id);
  *out = (CUmemoryPool)create_pool(d, props->maxSize)->handle;
  return CUDA_SUCCESS;
}
API CUresult cuMemPoolDestroy(CUmemoryPool h) {
  REQUIRE_POOL(p, h);
  if (p == default_pool(p->device)) return CUDA_ERROR_INVALID_VALUE;
  destroy_pool(p);
  return CUDA_SUCCESS;
}
API CUresult cuMemPoolTrimTo(CUmemoryPool h, size_t) {
  REQUIRE_POOL(p, h);
  (void)p;
  return CUDA_SUCCESS;  // a pool holds no unused memory
}
// The device of a pool always has access, and no other one ever has: partitions are no peers.
API CUresult cuMemPoolSetAccess(CUmemoryPool h, const CUmemAccessDesc* map, size_t n) {
  REQUIRE_POOL(p, h);
  if (n && !map) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < n; i++) {
    if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    auto* device = find_device(map[i].location.id);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    bool none = map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE;
    bool all = map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if ((!none && !all) || (none && device == p->device)) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
API CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool h, CUmemLocation* where) {
  REQUIRE_POOL(p, h);
  if (!flags || !where || where->type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  if (!find_device(where->id)) return CUDA_ERROR_INVALID_DEVICE;
  *flags = find_device(where->id) == p->device ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                               : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

API CUresult cuMemPoolSetAttribute(CUmemoryPool h, CUmemPool_attribute which, void* value) {
  REQUIRE_POOL(p, h);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  MutexLock lock(p->mutex);
  reclaim_completed(*p);
  return p->attributes.set(which, value);
}

API CUresult cuMemPoolGetAttribute(CUmemoryPool h, CUmemPool_attribute which, void* value) {
  REQUIRE_POOL(p, h);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  MutexLock lock(p->mutex);
  reclaim_completed(*p);
  return p->attributes.get(which, p->device->ordinal, value);
}
