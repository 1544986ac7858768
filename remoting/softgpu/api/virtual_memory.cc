// CUDA entry points: virtual memory management: addresses, physical memory and the mapping between
// them.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "checked_size.h"
#include "softgpu/api/require.h"
#include "softgpu/device/arena.h"
#include "softgpu/driver/memory.h"
#include "softgpu/driver/physical_memory.h"

using namespace softgpu;

API CUresult cuMemGetAllocationGranularity(size_t* out, const CUmemAllocationProp* p,
                                           CUmemAllocationGranularity_flags) {
  REQUIRE_DRIVER();
  if (!out || !p) return CUDA_ERROR_INVALID_VALUE;
  *out = kGranularity;
  return CUDA_SUCCESS;
}

// Return whether a mapping overlaps a range inside the window. The caller holds Driver::mutex.
static bool overlaps_mapping(const Driver& d, uint64_t address, uint64_t bytes) {
  auto next = d.mappings.lower_bound(address);
  if (next != d.mappings.end() && next->first - address < bytes) return true;
  return next != d.mappings.begin() &&
         address - std::prev(next)->first < std::prev(next)->second.bytes;
}

// As NVIDIA's driver 580 does: once a context exists, small ranges get addresses of its choice. Its
// limit is between 2 and 64 MiB.
static uint64_t wanted_address(const Driver& d, uint64_t hint, uint64_t bytes) {
  constexpr uint64_t kPlacedBytes = 64ull << 20;
  bool has_context = std::ranges::any_of(d.devices, [](auto& device) { return !!device->runner; });
  return hint % kGranularity || (has_context && bytes < kPlacedBytes) ? 0 : hint;
}

API CUresult cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t align, CUdeviceptr hint,
                                 unsigned long long flags) {
  Driver* d = driver();
  if (!d) return CUDA_ERROR_NOT_INITIALIZED;
  if (!out || !bytes || bytes % kGranularity || flags || (align & (align - 1)) ||
      align > kGranularity)
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t at = reserve_addresses(bytes, wanted_address(*d, hint, bytes));
  if (!at) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard lock(d->mutex);
  d->allocations[at] = {Allocation::reserved, at, bytes, 0, nullptr, 0, 0, d->next_id++};
  *out = at;
  return CUDA_SUCCESS;
}

API CUresult cuMemAddressFree(CUdeviceptr p, size_t bytes) {
  Driver* d = driver();
  if (!d) return CUDA_ERROR_NOT_INITIALIZED;
  std::lock_guard lock(d->mutex);
  auto it = d->allocations.find(p);
  if (it == d->allocations.end() || it->second.kind != Allocation::reserved ||
      it->second.bytes != bytes)
    return CUDA_ERROR_INVALID_VALUE;
  if (overlaps_mapping(*d, p, bytes)) return CUDA_ERROR_INVALID_VALUE;
  d->allocations.erase(it);
  release_addresses(p, bytes);
  return CUDA_SUCCESS;
}

API CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes,
                         const CUmemAllocationProp* p, unsigned long long flags) {
  Driver* d = driver();
  if (!d) return CUDA_ERROR_NOT_INITIALIZED;
  if (!out || !p || flags || !bytes || bytes % kGranularity ||
      p->type != CU_MEM_ALLOCATION_TYPE_PINNED || p->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  DeviceState* dev = device_at(p->location.id);
  if (!dev) return CUDA_ERROR_INVALID_DEVICE;
  if (!dev->engine->charge(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  int fd = memfd_create("softgpu", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (off_t)bytes)) {
    if (fd >= 0) close(fd);
    dev->engine->refund(bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  auto* m = new PhysicalMemory{fd, bytes, dev->ordinal, 1, false, *p};
  add_handle(m);
  *out = (CUmemGenericAllocationHandle)m;
  return CUDA_SUCCESS;
}

API CUresult cuMemRelease(CUmemGenericAllocationHandle h) {
  REQUIRE_DRIVER();
  REQUIRE_LIVE(PhysicalMemory, m, h);
  bool last;
  {
    std::lock_guard lock(driver()->mutex);
    last = --m->handles == 0;
  }
  if (last) remove_handle(m);
  release_physical_memory(m);
  return CUDA_SUCCESS;
}

API CUresult cuMemMap(CUdeviceptr p, size_t bytes, size_t offset, CUmemGenericAllocationHandle h,
                      unsigned long long flags) {
  Driver* d = driver();
  if (!d) return CUDA_ERROR_NOT_INITIALIZED;
  auto* m = (PhysicalMemory*)h;
  if (!is_live(m) || flags || offset || bytes != m->bytes || p % kGranularity)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(d->mutex);
  const Allocation* a = find_allocation(p);
  if (!a || a->kind != Allocation::reserved ||
      !(CheckedSize(p) + bytes).within(CheckedSize(a->base) + a->bytes))
    return CUDA_ERROR_INVALID_VALUE;
  if (overlaps_mapping(*d, p, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (mmap((void*)p, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, m->fd, 0) ==
      MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  m->references++;
  d->mappings[p] = {m, bytes, CU_MEM_ACCESS_FLAGS_PROT_NONE};
  return CUDA_SUCCESS;
}

// Return whether mappings that follow each other are exactly [address, address + bytes). The caller
// holds Driver::mutex.
static bool is_mapped(const Driver& d, uint64_t address, uint64_t bytes) {
  while (bytes) {
    auto it = d.mappings.find(address);
    if (it == d.mappings.end() || it->second.bytes > bytes) return false;
    address += it->second.bytes;
    bytes -= it->second.bytes;
  }
  return true;
}

// A mapping can be accessed from here on.
API CUresult cuMemSetAccess(CUdeviceptr p, size_t bytes, const CUmemAccessDesc* access,
                            size_t count) {
  Driver* d = driver();
  if (!d) return CUDA_ERROR_NOT_INITIALIZED;
  if (!access || !count || !bytes) return CUDA_ERROR_INVALID_VALUE;
  int protection = access[0].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
                   : access[0].flags == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                                         : PROT_NONE;
  std::lock_guard lock(d->mutex);
  if (!is_mapped(*d, p, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (mprotect((void*)p, bytes, protection)) return CUDA_ERROR_INVALID_VALUE;
  auto end = d->mappings.lower_bound((CheckedSize(p) + bytes).value());
  for (auto it = d->mappings.find(p); it != end; ++it) it->second.access = access[0].flags;
  return CUDA_SUCCESS;
}

// Return the mapping that contains an address, or null. The caller holds Driver::mutex.
static const Mapping* mapping_at(const Driver& d, uint64_t address) {
  auto next = d.mappings.upper_bound(address);
  if (next == d.mappings.begin()) return nullptr;
  const Mapping& m = std::prev(next)->second;
  return address - std::prev(next)->first < m.bytes ? &m : nullptr;
}

API CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* where, CUdeviceptr p) {
  REQUIRE_DRIVER();
  std::lock_guard lock(driver()->mutex);
  const Mapping* m = mapping_at(*driver(), p);
  if (!flags || !where || !m) return CUDA_ERROR_INVALID_VALUE;
  *flags = where->id == m->memory->ordinal ? m->access : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* p) {
  REQUIRE_DRIVER();
  PhysicalMemory* memory;
  {
    std::lock_guard lock(driver()->mutex);
    const Mapping* m = mapping_at(*driver(), (uint64_t)p);
    if (!out || !m) return CUDA_ERROR_INVALID_VALUE;
    memory = m->memory;
    memory->references++;
    memory->handles++;
  }
  add_handle(memory);
  *out = (CUmemGenericAllocationHandle)memory;
  return CUDA_SUCCESS;
}

API CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out,
                                                    CUmemGenericAllocationHandle h) {
  REQUIRE_LIVE(PhysicalMemory, m, h);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = m->properties;
  return CUDA_SUCCESS;
}

API CUresult cuMemUnmap(CUdeviceptr p, size_t bytes) {
  Driver* d = driver();
  if (!d) return CUDA_ERROR_NOT_INITIALIZED;
  PhysicalMemory* m;
  {
    std::lock_guard lock(d->mutex);
    auto it = d->mappings.find(p);
    if (it == d->mappings.end() || it->second.bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
    m = it->second.memory;
    d->mappings.erase(it);
    (void)mmap((void*)p, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
               -1, 0);
  }
  release_physical_memory(m);
  return CUDA_SUCCESS;
}

// Export physical memory as a file descriptor for another process, and import it.
API CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle h,
                                          CUmemAllocationHandleType type,
                                          unsigned long long flags) {
  REQUIRE_DRIVER();
  auto* m = (PhysicalMemory*)h;
  if (!out || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !is_live(m))
    return CUDA_ERROR_INVALID_VALUE;
  int fd = fcntl(m->fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *(int*)out = fd;
  return CUDA_SUCCESS;
}

API CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* handle,
                                            CUmemAllocationHandleType type) {
  REQUIRE_DRIVER();
  if (!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
  int fd = fcntl((int)(intptr_t)handle, F_DUPFD_CLOEXEC, 0);
  struct stat st;
  if (fd < 0 || fstat(fd, &st) || st.st_size % (off_t)kGranularity || !st.st_size) {
    if (fd >= 0) close(fd);
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto* m = new PhysicalMemory{fd, (uint64_t)st.st_size, 0, 1, true};
  m->properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  m->properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  m->properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  add_handle(m);
  *out = (CUmemGenericAllocationHandle)m;
  return CUDA_SUCCESS;
}
