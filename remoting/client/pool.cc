// Stream-ordered allocation and memory pools: ours, in the arena, never the driver's. Memory is
// there at once and is used again when the stream has come to its free.
#include <algorithm>
#include <map>

#include "client/call.h"

namespace busbar::client {

struct Pool {
  Device* device = nullptr;
  std::mutex mutex;
  uint64_t threshold = 0, used = 0, used_high = 0;
  int flags[4] = {0, 1, 1, 1};  // reuse attributes 1 to 3
  struct Freed {
    Heap::Done done;
    uint64_t bytes;
  };
  std::vector<Freed> freed;  // still in use by their streams
  void* handle = nullptr;
};

namespace {
struct Pools {
  std::mutex mutex;
  Handles<Pool, HandleKind::pool> handles;
  std::map<Device*, Pool*> first, chosen;
  std::map<uint64_t, std::pair<Pool*, uint64_t>> owner;  // of an address
};
Pools& pools() {
  static auto* p = new Pools;
  return *p;
}

Pool* make_pool(Device* d) {
  auto* p = new Pool;
  p->device = d;
  p->handle = pools().handles.add(p);
  return p;
}

Pool* default_pool(Device* d) {
  std::lock_guard lock(pools().mutex);
  Pool*& p = pools().first[d];
  if (!p) p = make_pool(d);
  return p;
}

Pool* current_pool(Device* d) {
  {
    std::lock_guard lock(pools().mutex);
    auto it = pools().chosen.find(d);
    if (it != pools().chosen.end()) return it->second;
  }
  return default_pool(d);
}

// Call with the pool's lock.
void settle(Pool& p) {
  p.device->link->glance();
  std::erase_if(p.freed, [&](auto& f) {
    bool done = f.done();
    if (done) p.used -= std::min(p.used, f.bytes);
    return done;
  });
}

Device* device_at(int d) {
  return session() && d >= 0 && d < (int)session()->devices.size()
             ? session()->devices[(size_t)d].get()
             : nullptr;
}
}  // namespace

void forget_pool_memory(uint64_t at, Heap::Done done) {
  Pool* p;
  uint64_t bytes;
  {
    std::lock_guard lock(pools().mutex);
    auto it = pools().owner.find(at);
    if (it == pools().owner.end()) return;
    std::tie(p, bytes) = it->second;
    pools().owner.erase(it);
  }
  std::lock_guard lock(p->mutex);
  p->freed.push_back({std::move(done), bytes});
  settle(*p);
}

}  // namespace busbar::client

using namespace busbar;
using namespace busbar::client;

#define POOL(p, h)                                   \
  if (!session()) return CUDA_ERROR_NOT_INITIALIZED; \
  Pool* p = pools().handles.get(h);                  \
  if (!p) return CUDA_ERROR_INVALID_VALUE
#define DEVICE(d, dev)                               \
  if (!session()) return CUDA_ERROR_NOT_INITIALIZED; \
  Device* d = device_at(dev);                        \
  if (!d) return CUDA_ERROR_INVALID_DEVICE

// Memory nodes of graphs would be the driver's own: a capture that meets one is over.
static CUresult no_memory_nodes(Stream& s) {
  if (!s.capturing) return CUDA_SUCCESS;
  forbid_in_capture(s);
  return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult allocate_from(Pool* p, CUdeviceptr* out, size_t bytes, CUstream h) {
  Call call;
  if (CUresult r = call.begin(h)) return r;
  if (!out || !bytes) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = no_memory_nodes(*call.stream())) return r;
  if (!p) p = current_pool(call.context()->device);
  uint64_t at = 0;
  if (CUresult r = allocate_device(call.context(), bytes, at)) return r;
  session()->addresses.add({Region::device, at, bytes, 0, call.context(), 0});
  {
    std::lock_guard lock(pools().mutex);
    pools().owner[at] = {p, bytes};
  }
  std::lock_guard lock(p->mutex);
  settle(*p);
  p->used += bytes;
  p->used_high = std::max(p->used_high, p->used);
  *out = at;
  return CUDA_SUCCESS;
}

API CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream s) {
  return allocate_from(nullptr, out, bytes, s);
}
API CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool h, CUstream s) {
  POOL(p, h);
  return allocate_from(p, out, bytes, s);
}

API CUresult cuMemFreeAsync(CUdeviceptr p, CUstream h) {
  Call call;
  if (CUresult r = call.begin(h)) return r;
  if (session()->addresses.find(p).base != p) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = no_memory_nodes(*call.stream())) return r;
  Region r;
  if (!session()->addresses.remove(p, Region::device, &r)) return CUDA_ERROR_INVALID_VALUE;
  Stream* s = call.stream();
  uint64_t last = s->progress.last.load();
  Heap::Done done = s->legacy ? all_work_done(call.context()) : Heap::Done([s, last] {
    return s->progress.completed.load(std::memory_order_acquire) >= last;
  });
  forget_pool_memory(p, done);
  return release_device(r, done);
}

API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice dev) {
  DEVICE(d, dev);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUmemoryPool)default_pool(d)->handle;
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetMemPool(CUmemoryPool* out, CUdevice dev) {
  DEVICE(d, dev);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUmemoryPool)current_pool(d)->handle;
  return CUDA_SUCCESS;
}
API CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool h) {
  POOL(p, h);
  DEVICE(d, dev);
  if (p->device != d) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(pools().mutex);
  pools().chosen[d] = p;
  return CUDA_SUCCESS;
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

API CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* props) {
  if (!session()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  DEVICE(d, props->location.id);
  *out = (CUmemoryPool)make_pool(d)->handle;
  return CUDA_SUCCESS;
}
API CUresult cuMemPoolDestroy(CUmemoryPool h) {  // the object stays: its memory may still be in use
  POOL(p, h);
  if (p == default_pool(p->device)) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(pools().mutex);
  pools().handles.remove(h);
  std::erase_if(pools().chosen, [&](auto& c) { return c.second == p; });
  return CUDA_SUCCESS;
}
API CUresult cuMemPoolTrimTo(CUmemoryPool h, size_t) {
  POOL(p, h);
  (void)p;
  return CUDA_SUCCESS;
}  // nothing is held back
API CUresult cuMemPoolSetAccess(CUmemoryPool h, const CUmemAccessDesc* map, size_t n) {
  POOL(p, h);
  (void)p;
  return n && !map ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
API CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool h, CUmemLocation* where) {
  POOL(p, h);
  if (!flags || !where) return CUDA_ERROR_INVALID_VALUE;
  *flags = device_at(where->id) == p->device ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                             : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

API CUresult cuMemPoolSetAttribute(CUmemoryPool h, CUmemPool_attribute which, void* value) {
  POOL(p, h);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(p->mutex);
  settle(*p);
  if (which >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
      which <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES) {
    p->flags[which] = *(int*)value;
    return CUDA_SUCCESS;
  }
  if (which == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
    p->threshold = *(cuuint64_t*)value;
    return CUDA_SUCCESS;
  }
  if ((which == CU_MEMPOOL_ATTR_USED_MEM_HIGH || which == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) &&
      *(cuuint64_t*)value == 0) {
    p->used_high = p->used;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuMemPoolGetAttribute(CUmemoryPool h, CUmemPool_attribute which, void* value) {
  POOL(p, h);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(p->mutex);
  settle(*p);
  switch (which) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      *(int*)value = p->flags[which];
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: *(cuuint64_t*)value = p->threshold; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: *(cuuint64_t*)value = p->used; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: *(cuuint64_t*)value = p->used_high; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

// Graphs hold no memory of their own here, so there is none to count or to trim.
API CUresult cuDeviceGraphMemTrim(CUdevice dev) {
  DEVICE(d, dev);
  (void)d;
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute which, void* value) {
  DEVICE(d, dev);
  (void)d;
  if (!value || which > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) return CUDA_ERROR_INVALID_VALUE;
  *(cuuint64_t*)value = 0;
  return CUDA_SUCCESS;
}
API CUresult cuDeviceSetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute which, void* value) {
  DEVICE(d, dev);
  (void)d;
  return value && (which == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH ||
                   which == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}
