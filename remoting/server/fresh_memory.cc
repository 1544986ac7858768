#include "server/fresh_memory.h"

#include "server/memory.h"

namespace busbar::server {

namespace {
CUmemAllocationProp properties(CUdevice device) {
  CUmemAllocationProp p{};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  return p;
}

CUresult map_at(Driver& cu, CUdevice device, uint64_t at, uint64_t bytes,
                CUmemGenericAllocationHandle handle) {
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {device}},
                         CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUresult r = cu.cuMemMap(at, bytes, 0, handle, 0);
  if (!r && (r = cu.cuMemSetAccess(at, bytes, &access, 1))) cu.cuMemUnmap(at, bytes);
  return r;
}
}  // namespace

CUresult create_private(Driver& cu, CUdevice device, uint64_t bytes,
                        CUmemGenericAllocationHandle* handle) {
  CUmemAllocationProp p = properties(device);
  return cu.cuMemCreate(handle, bytes, &p, 0);
}

CUresult create_shared(Driver& cu, CUdevice device, uint64_t bytes,
                       CUmemGenericAllocationHandle* handle) {
  CUmemAllocationProp p = properties(device);
  p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUresult r = cu.cuMemCreate(handle, bytes, &p, 0);
  bool cannot_share = r == CUDA_ERROR_NOT_SUPPORTED || r == CUDA_ERROR_INVALID_VALUE;
  return cannot_share ? create_private(cu, device, bytes, handle) : r;
}

CUresult map_fresh(Driver& cu, CUdevice device, uint64_t at, uint64_t bytes,
                   CUmemGenericAllocationHandle* handle) {
  if (CUresult r = create_shared(cu, device, bytes, handle)) return r;
  CUresult r = map_at(cu, device, at, bytes, *handle);
  if (!r && (r = clear_mapped(cu, at, bytes))) cu.cuMemUnmap(at, bytes);
  if (r) cu.cuMemRelease(*handle);
  return r;
}

TemporaryMapping::TemporaryMapping(Driver& cu, CUdevice device, CUmemGenericAllocationHandle handle,
                                   uint64_t bytes)
    : cu_(cu), bytes_(bytes) {
  status_ = cu.cuMemAddressReserve(&at_, bytes, 0, 0, 0);
  if (!status_) status_ = map_at(cu, device, at_, bytes, handle);
  mapped_ = !status_;
}

TemporaryMapping::~TemporaryMapping() {
  if (mapped_) cu_.cuMemUnmap(at_, bytes_);
  if (at_) cu_.cuMemAddressFree(at_, bytes_);
}

}  // namespace busbar::server
