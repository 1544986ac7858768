// Linear memory of devices and pinned memory of the host; copies and fills in stream order.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "softgpu/driver/graph.h"

namespace softgpu {

static uint64_t round_up(uint64_t v, uint64_t a) {
  return (v + a - 1) & ~(a - 1);
}

const Allocation* find_allocation(uint64_t address) {
  auto& all = driver()->allocations;
  auto it = all.upper_bound(address);
  if (it == all.begin()) return nullptr;
  --it;
  return address - it->second.base < it->second.bytes ? &it->second : nullptr;
}

CUresult seen_by_host(CUresult r, CUdeviceptr p) {
  if (r) return r;
  std::unique_lock lock(driver()->mutex);
  const Allocation* a = find_allocation(p);
  bool host = a && (a->kind == Allocation::host || a->kind == Allocation::registered);
  lock.unlock();
  return host ? cuStreamSynchronize(nullptr) : CUDA_SUCCESS;
}

bool registered_memory(uint64_t address, uint32_t bytes) {
  std::lock_guard lock(driver()->mutex);
  const Allocation* a = find_allocation(address);
  return a && a->kind == Allocation::registered && address + bytes <= a->base + a->bytes;
}

CUresult release_memory(uint64_t base) {
  Driver* d = driver();
  Allocation a;
  {
    std::lock_guard lock(d->mutex);
    auto it = d->allocations.find(base);
    if (it == d->allocations.end()) return CUDA_ERROR_INVALID_VALUE;
    a = it->second;
    d->allocations.erase(it);
  }
  if (a.kind == Allocation::registered) return CUDA_SUCCESS;
  if (a.kind == Allocation::device) {
    forget_ipc(a.base);
    forget_pool_memory(a.base, a.bytes);
  }
  unmap_private(a.base, round_up(a.bytes, 4096));
  if (a.kind == Allocation::device) device_at(a.ordinal)->engine->refund(a.charged);
  return CUDA_SUCCESS;
}

static CUresult allocate(Context* c, size_t bytes, Allocation::Kind kind, unsigned flags,
                         uint64_t* out) {
  Driver* d = driver();
  uint64_t charged = round_up(bytes, 4096);
  if (charged < bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  Engine* engine = c->device->engine;
  if (kind == Allocation::device && !engine->charge(charged)) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t at = map_private(charged);
  if (!at) {
    if (kind == Allocation::device) engine->refund(charged);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  std::lock_guard lock(d->mutex);
  d->allocations[at] = {kind, at, bytes, charged, c, flags, c->device->ordinal, d->next_id++};
  *out = at;
  return CUDA_SUCCESS;
}

CUresult allocate_memory(Context* c, size_t bytes, CUdeviceptr* out) {
  uint64_t at;
  CUresult r = allocate(c, bytes, Allocation::device, 0, &at);
  if (!r) *out = at;
  return r;
}

// True when [p, p+n) lies in memory that kernels and copies of the device may touch.
bool valid_device_range(uint64_t p, size_t n) {
  if (n == 0) return true;
  Driver* d = driver();
  std::lock_guard lock(d->mutex);
  while (n) {
    const Allocation* a = find_allocation(p);
    if (!a) return false;
    uint64_t left = a->base + a->bytes - p;
    if (a->kind ==
        Allocation::reserved) {  // addresses without memory, but for what is mapped there
      auto m = d->mappings.upper_bound(p);
      if (m == d->mappings.begin()) return false;
      --m;
      uint64_t end = m->first + d->mapping_bytes[m->first];
      if (p >= end) return false;
      left = end - p;
    }
    if (n <= left) return true;
    n -= left;
    p += left;
  }
  return true;
}

}  // namespace softgpu

using namespace softgpu;

#define CURRENT(c) \
  Context* c;      \
  if (CUresult r = current_context(c)) return r
#define STREAM(s, h, c) \
  StreamRef s;          \
  if (CUresult r = stream_for(h, c, s)) return r

#define SAFE \
  if (CUresult r = unsafe_in_capture()) return r

API CUresult cuMemAlloc(CUdeviceptr* out, size_t bytes) {
  CURRENT(c);
  SAFE;
  if (!out || !bytes) return CUDA_ERROR_INVALID_VALUE;
  uint64_t at;
  CUresult r = allocate(c, bytes, Allocation::device, 0, &at);
  if (!r) *out = at;
  return r;
}

API CUresult cuMemAllocPitch(CUdeviceptr* out, size_t* pitch, size_t width, size_t height,
                             unsigned element) {
  if (!out || !pitch || !width || !height || (element != 4 && element != 8 && element != 16))
    return CUDA_ERROR_INVALID_VALUE;
  *pitch = round_up(width, 512);
  return cuMemAlloc(out, *pitch * height);
}

API CUresult cuMemFree(CUdeviceptr p) {
  CURRENT(c);
  SAFE;
  if (!p) return CUDA_SUCCESS;
  {
    std::lock_guard lock(driver()->mutex);
    auto it = driver()->allocations.find(p);
    if (it == driver()->allocations.end() || it->second.kind != Allocation::device)
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (CUresult r = wait_for_context(c)) return r;
  return release_memory(p);
}

API CUresult cuMemGetInfo(size_t* free, size_t* total) {
  CURRENT(c);
  if (!free || !total) return CUDA_ERROR_INVALID_VALUE;
  *total = c->device->engine->total_bytes();
  *free = *total - std::min<uint64_t>(*total, c->device->engine->used_bytes());
  return CUDA_SUCCESS;
}

API CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned flags) {
  CURRENT(c);
  SAFE;
  if (!out || !bytes || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  uint64_t at;
  CUresult r = allocate(c, bytes, Allocation::host, flags, &at);
  if (!r) *out = (void*)at;
  return r;
}
API CUresult cuMemAllocHost(void** out, size_t bytes) {
  return cuMemHostAlloc(out, bytes, 0);
}
API CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned flags) {
  return flags == 1 || flags == 2 ? cuMemAlloc(out, bytes) : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuMemFreeHost(void* p) {
  CURRENT(c);
  SAFE;
  {
    std::lock_guard lock(driver()->mutex);
    auto it = driver()->allocations.find((uint64_t)p);
    if (it == driver()->allocations.end() || it->second.kind != Allocation::host)
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (CUresult r = wait_for_context(c)) return r;
  return release_memory((uint64_t)p);
}

API CUresult cuMemHostRegister(void* p, size_t bytes, unsigned flags) {
  CURRENT(c);
  if (!p || !bytes || flags > 15) return CUDA_ERROR_INVALID_VALUE;
  Driver* d = driver();
  std::lock_guard lock(d->mutex);
  if (find_allocation((uint64_t)p)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  d->allocations[(uint64_t)p] = {Allocation::registered, (uint64_t)p, bytes, 0, c, flags,
                                 c->device->ordinal,     d->next_id++};
  return CUDA_SUCCESS;
}

API CUresult cuMemHostUnregister(void* p) {
  CURRENT(c);
  (void)c;
  Driver* d = driver();
  std::lock_guard lock(d->mutex);
  auto it = d->allocations.find((uint64_t)p);
  if (it == d->allocations.end() || it->second.kind != Allocation::registered)
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  d->allocations.erase(it);
  return CUDA_SUCCESS;
}

API CUresult cuMemHostGetDevicePointer(CUdeviceptr* out, void* p, unsigned flags) {
  CURRENT(c);
  (void)c;
  std::lock_guard lock(driver()->mutex);
  const Allocation* a = find_allocation((uint64_t)p);
  if (!out || flags || !a || (a->kind != Allocation::host && a->kind != Allocation::registered))
    return CUDA_ERROR_INVALID_VALUE;
  *out = (CUdeviceptr)p;
  return CUDA_SUCCESS;
}

API CUresult cuMemHostGetFlags(unsigned* flags, void* p) {
  std::lock_guard lock(driver()->mutex);
  const Allocation* a = find_allocation((uint64_t)p);
  if (!flags || !a || a->kind != Allocation::host) return CUDA_ERROR_INVALID_VALUE;
  *flags = a->flags;
  return CUDA_SUCCESS;
}

API CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr p) {
  CURRENT(c);
  (void)c;
  std::lock_guard lock(driver()->mutex);
  const Allocation* a = find_allocation(p);
  if (!a) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = a->base;
  if (bytes) *bytes = a->bytes;
  return CUDA_SUCCESS;
}

static bool is_host(uint64_t p) {
  std::lock_guard lock(driver()->mutex);
  const Allocation* a = find_allocation(p);
  return a && (a->kind == Allocation::host || a->kind == Allocation::registered);
}

// ---- copies ----
static NodeParams linear_copy(void* to, const void* from, size_t n) {
  NodeParams p;
  p.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  p.copy.srcMemoryType = p.copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  p.copy.srcDevice = (CUdeviceptr)from;
  p.copy.dstDevice = (CUdeviceptr)to;
  p.copy.WidthInBytes = n;
  p.copy.Height = p.copy.Depth = 1;
  return p;
}

static CUresult copy(Context* c, CUstream h, void* to, const void* from, size_t n, bool wait) {
  STREAM(s, h, c);
  NodeParams params = linear_copy(to, from, n);
  uint64_t at = enqueue(
      s,
      [=] {
        std::memmove(to, from, n);
        return CUDA_SUCCESS;
      },
      {}, &params);
  return wait ? wait_for(s, at) : CUDA_SUCCESS;
}

// Pageable source bytes are taken before the call returns, as CUDA promises.
static CUresult copy_in(Context* c, CUstream h, CUdeviceptr to, const void* from, size_t n,
                        bool wait) {
  STREAM(s, h, c);
  bool pinned;
  {
    std::lock_guard lock(driver()->mutex);
    pinned = find_allocation((uint64_t)from) != nullptr;
  }
  if (wait || pinned || s->capture) return copy(c, h, (void*)to, from, n, wait);
  auto snapshot =
      std::make_shared<std::vector<uint8_t>>((const uint8_t*)from, (const uint8_t*)from + n);
  enqueue(s, [=] {
    std::memcpy((void*)to, snapshot->data(), n);
    return CUDA_SUCCESS;
  });
  return CUDA_SUCCESS;
}

#define CHECK_DEVICE(p, n) \
  if (!valid_device_range(p, n)) return CUDA_ERROR_INVALID_VALUE
#define CHECK_HOST(p, n) \
  if (!(p) && (n)) return CUDA_ERROR_INVALID_VALUE

API CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t n) {
  CURRENT(c);
  CHECK_DEVICE(to, n);
  CHECK_HOST(from, n);
  return copy_in(c, nullptr, to, from, n, true);
}
API CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t n, CUstream s) {
  CURRENT(c);
  CHECK_DEVICE(to, n);
  CHECK_HOST(from, n);
  return copy_in(c, s, to, from, n, false);
}
API CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t n) {
  CURRENT(c);
  CHECK_DEVICE(from, n);
  CHECK_HOST(to, n);
  return copy(c, nullptr, to, (void*)from, n, true);
}
API CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t n, CUstream s) {
  CURRENT(c);
  CHECK_DEVICE(from, n);
  CHECK_HOST(to, n);
  bool pinned;
  {
    std::lock_guard lock(driver()->mutex);
    pinned = find_allocation((uint64_t)to) != nullptr;
  }
  return copy(c, s, to, (void*)from, n, !pinned);
}
API CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t n) {
  CURRENT(c);
  CHECK_DEVICE(to, n);
  CHECK_DEVICE(from, n);
  return copy(c, nullptr, (void*)to, (void*)from, n, false);
}
API CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
  CURRENT(c);
  CHECK_DEVICE(to, n);
  CHECK_DEVICE(from, n);
  return copy(c, s, (void*)to, (void*)from, n, false);
}
API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n) {
  CURRENT(c);
  return copy(c, nullptr, (void*)to, (void*)from, n, true);
}
API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
  CURRENT(c);
  return copy(c, s, (void*)to, (void*)from, n, false);
}
// Serialised with all work of both contexts, as the manual says.
API CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext a, CUdeviceptr from, CUcontext b, size_t n) {
  CURRENT(c);
  CHECK_DEVICE(to, n);
  CHECK_DEVICE(from, n);
  for (CUcontext x : {a, b}) {
    if (!known((Context*)x)) return CUDA_ERROR_INVALID_CONTEXT;
    if (CUresult r = wait_for_context((Context*)x)) return r;
  }
  return copy(c, nullptr, (void*)to, (void*)from, n, true);
}
API CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t n,
                               CUstream s) {
  CURRENT(c);
  return copy(c, s, (void*)to, (void*)from, n, false);
}

template <typename T>
static CUresult fill(CUdeviceptr p, T value, size_t n, CUstream h) {
  CURRENT(c);
  if (p % sizeof(T)) return CUDA_ERROR_INVALID_VALUE;
  CHECK_DEVICE(p, n * sizeof(T));
  STREAM(s, h, c);
  NodeParams params;
  params.type = CU_GRAPH_NODE_TYPE_MEMSET;
  params.fill = {p, 0, (unsigned)value, sizeof(T), n, 1};
  uint64_t at = enqueue(
      s,
      [=] {
        std::fill_n((T*)p, n, value);
        return CUDA_SUCCESS;
      },
      {}, &params);
  return h == nullptr && is_host(p) ? wait_for(s, at)
                                    : CUDA_SUCCESS;  // synchronous when the target is host memory
}
API CUresult cuMemsetD8(CUdeviceptr p, unsigned char v, size_t n) {
  return seen_by_host(fill<uint8_t>(p, v, n, nullptr), p);
}
API CUresult cuMemsetD16(CUdeviceptr p, unsigned short v, size_t n) {
  return seen_by_host(fill<uint16_t>(p, v, n, nullptr), p);
}
API CUresult cuMemsetD32(CUdeviceptr p, unsigned v, size_t n) {
  return seen_by_host(fill<uint32_t>(p, v, n, nullptr), p);
}
API CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char v, size_t n, CUstream s) {
  return fill<uint8_t>(p, v, n, s);
}
API CUresult cuMemsetD16Async(CUdeviceptr p, unsigned short v, size_t n, CUstream s) {
  return fill<uint16_t>(p, v, n, s);
}
API CUresult cuMemsetD32Async(CUdeviceptr p, unsigned v, size_t n, CUstream s) {
  return fill<uint32_t>(p, v, n, s);
}

// ---- what a pointer is ----
static CUresult pointer_attribute(void* data, CUpointer_attribute which, const Allocation* a,
                                  CUdeviceptr p) {
  if (!a) return CUDA_ERROR_INVALID_VALUE;
  bool host = a->kind == Allocation::host || a->kind == Allocation::registered;
  switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *(CUcontext*)data = (CUcontext)a->context;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *(unsigned*)data = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr*)data = p; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!host) return CUDA_ERROR_INVALID_VALUE;
      *(void**)data = (void*)p;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long*)data = a->id; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned*)data = 0; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int*)data = a->ordinal; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr*)data = a->base; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t*)data = a->bytes; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned*)data = 1; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

API CUresult cuPointerGetAttribute(void* data, CUpointer_attribute which, CUdeviceptr p) {
  CURRENT(c);
  (void)c;
  if (!data) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(driver()->mutex);
  return pointer_attribute(data, which, find_allocation(p), p);
}

API CUresult cuPointerGetAttributes(unsigned n, CUpointer_attribute* which, void** data,
                                    CUdeviceptr p) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!which || !data) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(driver()->mutex);
  const Allocation* a = find_allocation(p);
  for (unsigned i = 0; i < n; ++i)
    if (a) pointer_attribute(data[i], which[i], a, p);
  return CUDA_SUCCESS;
}
