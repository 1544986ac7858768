// Stream-ordered allocation and memory pools. Memory is there at once and goes back when the stream
// has come to its free.
#include <algorithm>
#include <cstring>

#include "softgpu/driver/graph.h"

namespace softgpu {

namespace {
struct Pool {
  int ordinal = 0;
  std::mutex mutex;
  uint64_t threshold = 0, used = 0, used_high = 0;
  int flags[4] = {0, 1, 1, 1};  // reuse attributes 1 to 3
};

Pool* default_pool(int ordinal) {
  static auto* pools = new std::map<int, Pool*>;
  static auto* mutex = new std::mutex;
  std::lock_guard lock(*mutex);
  Pool*& p = (*pools)[ordinal];
  if (!p) {
    p = new Pool;
    p->ordinal = ordinal;
    remember(p);
  }
  return p;
}

std::map<int, Pool*>& chosen() {
  static auto* m = new std::map<int, Pool*>;
  return *m;
}
std::map<uint64_t, Pool*>& owners() {
  static auto* m = new std::map<uint64_t, Pool*>;
  return *m;
}
std::mutex& pools_mutex() {
  static auto* m = new std::mutex;
  return *m;
}

Pool* current_pool(int ordinal) {
  std::lock_guard lock(pools_mutex());
  auto it = chosen().find(ordinal);
  return it != chosen().end() && known(it->second) ? it->second : default_pool(ordinal);
}

}  // namespace

void forget_pool_memory(uint64_t base, uint64_t bytes) {
  std::lock_guard lock(pools_mutex());
  auto it = owners().find(base);
  if (it == owners().end()) return;
  if (known(it->second)) {
    std::lock_guard own(it->second->mutex);
    it->second->used -= std::min(it->second->used, bytes);
  }
  owners().erase(it);
}

}  // namespace softgpu

using namespace softgpu;

#define CURRENT(c) \
  Context* c;      \
  if (CUresult r = current_context(c)) return r
#define POOL(p, h)                                  \
  auto* p = (Pool*)(h);                             \
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED; \
  if (!p || !known(p)) return CUDA_ERROR_INVALID_VALUE

API CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool h, CUstream hs) {
  CURRENT(c);
  POOL(p, h);
  StreamRef s;
  if (CUresult r = stream_for(hs, c, s)) return r;
  if (!out || !bytes) return CUDA_ERROR_INVALID_VALUE;
  if (s->capture) {
    invalidate(*s->capture);
    return CUDA_ERROR_NOT_SUPPORTED;
  }  // allocation nodes of graphs
  if (CUresult r = allocate_memory(c, bytes, out)) return r;
  {
    std::lock_guard lock(pools_mutex());
    owners()[*out] = p;
  }
  std::lock_guard lock(p->mutex);
  p->used += bytes;
  p->used_high = std::max(p->used_high, p->used);
  return CUDA_SUCCESS;
}

API CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream s) {
  CURRENT(c);
  return cuMemAllocFromPoolAsync(out, bytes, (CUmemoryPool)current_pool(c->device->ordinal), s);
}

API CUresult cuMemFreeAsync(CUdeviceptr p, CUstream hs) {
  CURRENT(c);
  StreamRef s;
  if (CUresult r = stream_for(hs, c, s)) return r;
  {
    std::lock_guard lock(driver()->mutex);
    auto it = driver()->allocations.find(p);
    if (it == driver()->allocations.end() || it->second.kind != Allocation::device)
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (s->capture) {
    invalidate(*s->capture);
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  enqueue(s, [p] {
    release_memory(p);
    return CUDA_SUCCESS;
  });
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice dev) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!device_at(dev)) return CUDA_ERROR_INVALID_DEVICE;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUmemoryPool)default_pool(dev);
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetMemPool(CUmemoryPool* out, CUdevice dev) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!device_at(dev)) return CUDA_ERROR_INVALID_DEVICE;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUmemoryPool)current_pool(dev);
  return CUDA_SUCCESS;
}
API CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool h) {
  POOL(p, h);
  if (!device_at(dev) || p->ordinal != dev) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(pools_mutex());
  chosen()[dev] = p;
  return CUDA_SUCCESS;
}

API CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* props) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  if (!device_at(props->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  auto* p = new Pool;
  p->ordinal = props->location.id;
  remember(p);
  *out = (CUmemoryPool)p;
  return CUDA_SUCCESS;
}
API CUresult cuMemPoolDestroy(CUmemoryPool h) {
  POOL(p, h);
  if (p == default_pool(p->ordinal)) return CUDA_ERROR_INVALID_VALUE;
  forget(p);
  return CUDA_SUCCESS;
}  // kept: its memory may still be in use
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
  (void)p;
  if (!flags || !where) return CUDA_ERROR_INVALID_VALUE;
  *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}

API CUresult cuMemPoolSetAttribute(CUmemoryPool h, CUmemPool_attribute which, void* value) {
  POOL(p, h);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(p->mutex);
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
