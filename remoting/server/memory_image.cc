#include "server/memory_image.h"

#include <sys/mman.h>

#include <algorithm>

#include "checked_size.h"
#include "server/device_scope.h"
#include "server/fresh_memory.h"
#include "server/session.h"

namespace busbar::server {

// Memory that another session has mapped, or that belongs to one. Sessions of an allocation are
// suspended one by one, so it stays.
bool MemoryImage::shares_memory() {
  std::lock_guard lock(s_.shared_mutex);
  return !s_.shared.empty() ||
         std::ranges::any_of(s_.mapped, [](auto& m) { return !m.second.handle; });
}

// False if the sum of their sizes has no number.
bool MemoryImage::list_parts() {
  parts_.clear();
  for (auto& [at, lease] : s_.leases)
    if (!lease.outside_arena) parts_.push_back({true, at, lease.bytes, lease.device, 0, {}});
  for (auto& [id, memory] : s_.physical)
    parts_.push_back({false, id, memory.bytes, memory.device, 0, {}});
  CheckedSize all(0);
  for (auto& part : parts_) {
    part.at = all.value();
    all = all + part.bytes;
    if (!all.valid()) return false;
  }
  image_bytes_ = all.value();
  return true;
}

// The kernel provides the memory when it is written.
bool MemoryImage::allocate() {
  if (!image_bytes_) return true;
  void* p = mmap(nullptr, image_bytes_, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return false;
  image_ = (uint8_t*)p;
  return true;
}

void MemoryImage::discard() {
  if (image_) munmap(image_, image_bytes_);
  image_ = nullptr;
  image_bytes_ = 0;
  parts_.clear();
}

std::string MemoryImage::save(uint64_t most) {
  if (shares_memory()) return "it shares memory with other sessions";
  bool has_number = list_parts();
  bool is_promised = image_bytes_ <= most;
  if (!has_number || !is_promised || !allocate()) {
    discard();
    return is_promised ? "the node has no host memory for it"
                       : "its program has allocated memory meanwhile";
  }
  for (auto& part : parts_)
    if (CUresult r = save(part)) {
      discard();
      return "its memory cannot be read: error " + std::to_string((int)r);
    }
  return "";
}

CUresult MemoryImage::save(Part& part) {
  CUdevice device = s_.devices[part.device].device;
  DeviceScope scope(s_.cu, device);
  if (CUresult r = scope.status()) return r;
  PageCopies copies(s_.cu);
  if (CUresult r = copies.status()) return r;
  if (part.is_lease) return copies.save(part.key, part.bytes, image_ + part.at, part.filled);
  // The mappings of the program may permit no access, and there may be none.
  TemporaryMapping mapping(s_.cu, device, s_.physical[part.key].handle, part.bytes);
  if (CUresult r = mapping.status()) return r;
  return copies.save(mapping.address(), part.bytes, image_ + part.at, part.filled);
}

// Calls `each` for the mappings of physical memory, until it fails.
template <typename F>
CUresult MemoryImage::map_all(const Part& part, F each) {
  CUresult r = CUDA_SUCCESS;
  for (auto& [at, mapping] : s_.mapped)
    if (!r && mapping.handle == part.key) r = each(at, mapping);
  return r;
}

CUresult MemoryImage::release(const Part& part) {
  DeviceScope scope(s_.cu, s_.devices[part.device].device);
  CUresult r = scope.status();
  CUmemGenericAllocationHandle handle = 0;
  if (part.is_lease) {
    handle = s_.leases[part.key].handle;
    if (!r) r = s_.cu.cuMemUnmap(part.key, part.bytes);
  } else {
    handle = s_.physical[part.key].handle;
    auto unmap = [&](uint64_t at, const Mapping& m) {
      return s_.cu.cuMemUnmap(at, m.bytes);
    };
    if (!r) r = map_all(part, unmap);
  }
  if (!r) r = s_.cu.cuMemRelease(handle);
  if (!r) s_.account.release(s_.devices[part.device].partition, part.bytes);
  return r;
}

CUresult MemoryImage::release() {
  for (auto& part : parts_)
    if (CUresult r = release(part)) return r;
  return CUDA_SUCCESS;
}

std::array<uint64_t, wire::kMaxDevices> MemoryImage::needed_bytes() const {
  std::array<uint64_t, wire::kMaxDevices> bytes{};
  // NOLINTNEXTLINE(custom-unchecked-sum): list_parts() has checked the sum of all
  for (auto& part : parts_) bytes[s_.devices[part.device].partition] += part.bytes;
  return bytes;
}

CUresult MemoryImage::copy_back(const Part& part, CUdeviceptr to) {
  PageCopies copies(s_.cu);
  if (CUresult r = copies.status()) return r;
  return copies.restore(to, part.bytes, image_ + part.at, part.filled);
}

CUresult MemoryImage::restore_lease(const Part& part) {
  CUdevice device = s_.devices[part.device].device;
  CUmemGenericAllocationHandle& handle = s_.leases[part.key].handle;
  if (CUresult r = map_fresh(s_.cu, device, part.key, part.bytes, &handle)) return r;
  return copy_back(part, part.key);
}

CUresult MemoryImage::restore_physical(const Part& part) {
  CUdevice device = s_.devices[part.device].device;
  CUmemGenericAllocationHandle& handle = s_.physical[part.key].handle;
  if (CUresult r = create_private(s_.cu, device, part.bytes, &handle)) return r;
  {
    TemporaryMapping mapping(s_.cu, device, handle, part.bytes);
    CUresult r = mapping.status();
    if (!r) r = clear_mapped(s_.cu, mapping.address(), part.bytes);
    if (!r) r = copy_back(part, mapping.address());
    if (r) return r;
  }
  return map_all(part, [&](uint64_t at, const Mapping& m) {
    CUresult r = s_.cu.cuMemMap(at, m.bytes, 0, handle, 0);
    for (auto& [index, flags] : m.access) {
      CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {s_.devices[index].device}}, flags};
      if (!r) r = s_.cu.cuMemSetAccess(at, m.bytes, &access, 1);
    }
    return r;
  });
}

CUresult MemoryImage::restore(const Part& part) {
  DeviceScope scope(s_.cu, s_.devices[part.device].device);
  if (CUresult r = scope.status()) return r;
  return part.is_lease ? restore_lease(part) : restore_physical(part);
}

CUresult MemoryImage::restore() {
  for (auto& part : parts_)
    if (CUresult r = restore(part)) return r;
  discard();
  return CUDA_SUCCESS;
}

}  // namespace busbar::server
