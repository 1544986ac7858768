// CUDA entry points: virtual memory management: addresses, physical memory and the mapping between
// them.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
  auto next = d.mapping_bytes.lower_bound(address);
  if (next != d.mapping_bytes.end() && next->first - address < bytes) return true;
  return next != d.mapping_bytes.begin() &&
         address - std::prev(next)->first < std::prev(next)->second;
}

API CUresult cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t align, CUdeviceptr hint,
                                 unsigned long long flags) {
  Driver* d = driver();
  if (!d) return CUDA_ERROR_NOT_INITIALIZED;
  if (!out || !bytes || bytes % kGranularity || flags || (align & (align - 1)) ||
      align > kGranularity)
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t at = reserve_addresses(bytes, hint % kGranularity ? 0 : hint);
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
  auto* m = new PhysicalMemory{fd, bytes, dev->ordinal, 1, false};
  add_handle(m);
  *out = (CUmemGenericAllocationHandle)m;
  return CUDA_SUCCESS;
}

API CUresult cuMemRelease(CUmemGenericAllocationHandle h) {
  REQUIRE_DRIVER();
  if (!remove_handle((PhysicalMemory*)h)) return CUDA_ERROR_INVALID_VALUE;
  release_physical_memory((PhysicalMemory*)h);
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
  d->mappings[p] = m;
  d->mapping_bytes[p] = bytes;
  return CUDA_SUCCESS;
}

// Return whether mappings that follow each other are exactly [address, address + bytes). The caller
// holds Driver::mutex.
static bool is_mapped(const Driver& d, uint64_t address, uint64_t bytes) {
  while (bytes) {
    auto it = d.mapping_bytes.find(address);
    if (it == d.mapping_bytes.end() || it->second > bytes) return false;
    address += it->second;
    bytes -= it->second;
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
  return mprotect((void*)p, bytes, protection) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

API CUresult cuMemUnmap(CUdeviceptr p, size_t bytes) {
  Driver* d = driver();
  if (!d) return CUDA_ERROR_NOT_INITIALIZED;
  PhysicalMemory* m;
  {
    std::lock_guard lock(d->mutex);
    auto it = d->mappings.find(p);
    if (it == d->mappings.end() || d->mapping_bytes[p] != bytes) return CUDA_ERROR_INVALID_VALUE;
    m = it->second;
    d->mappings.erase(it);
    d->mapping_bytes.erase(p);
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
  add_handle(m);
  *out = (CUmemGenericAllocationHandle)m;
  return CUDA_SUCCESS;
}
