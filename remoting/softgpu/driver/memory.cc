#include "softgpu/driver/memory.h"

#include <mutex>

#include "checked_size.h"
#include "softgpu/device/arena.h"
#include "softgpu/driver/context.h"
#include "softgpu/driver/driver.h"
#include "softgpu/driver/pool.h"
#include "softgpu/driver/shared_file.h"

namespace softgpu {

constexpr uint64_t kPageBytes = 4096;

const Allocation* find_allocation(uint64_t address) {
  auto& all = driver()->allocations;
  auto it = all.upper_bound(address);
  if (it == all.begin()) return nullptr;
  --it;
  return address - it->second.base < it->second.bytes ? &it->second : nullptr;
}

CUresult finish_host_write(CUresult r, CUdeviceptr p) {
  if (r) return r;
  std::unique_lock lock(driver()->mutex);
  const Allocation* a = find_allocation(p);
  bool host = a && (a->kind == Allocation::host || a->kind == Allocation::registered);
  lock.unlock();
  return host ? cuStreamSynchronize(nullptr) : CUDA_SUCCESS;
}

bool allocated(const void* address) {
  std::lock_guard lock(driver()->mutex);
  return find_allocation((uint64_t)address) != nullptr;
}

bool registered_memory(uint64_t address, uint32_t bytes) {
  std::lock_guard lock(driver()->mutex);
  const Allocation* a = find_allocation(address);
  return a && a->kind == Allocation::registered && bytes <= a->bytes - (address - a->base);
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
    close_shared_file(a.base);
    remove_from_pool(a.base, a.bytes);
  }
  unmap_private(a.base, a.charged);
  if (a.kind == Allocation::device) device_at(a.ordinal)->engine->refund(a.charged);
  return CUDA_SUCCESS;
}

static CUresult allocate(Context* c, size_t bytes, Allocation::Kind kind, unsigned flags,
                         uint64_t* out) {
  Driver* d = driver();
  CheckedSize rounded = CheckedSize(bytes).rounded_up(kPageBytes);
  if (!rounded.valid()) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t charged = rounded.value();
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

CUresult allocate_host_memory(Context* c, size_t bytes, unsigned flags, void** out) {
  uint64_t at;
  CUresult r = allocate(c, bytes, Allocation::host, flags, &at);
  if (!r) *out = (void*)at;
  return r;
}

bool valid_device_range(uint64_t address, size_t bytes) {
  if (bytes == 0) return true;
  Driver* d = driver();
  std::lock_guard lock(d->mutex);
  while (bytes) {
    const Allocation* a = find_allocation(address);
    if (!a) return false;
    uint64_t left = a->bytes - (address - a->base);
    if (a->kind == Allocation::reserved) {  // only its mappings have memory
      auto m = d->mappings.upper_bound(address);
      if (m == d->mappings.begin()) return false;
      --m;
      uint64_t before = address - m->first, mapped = m->second.bytes;
      if (before >= mapped) return false;
      left = mapped - before;
    }
    if (bytes <= left) return true;
    bytes -= left;
    address += left;
  }
  return true;
}

}  // namespace softgpu
