// Physical memory without contents of earlier users, and its mappings.
//
// Thread safety: any thread. The functions block until the driver is done; a context of the device
// must be current.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "server/driver.h"

namespace busbar::server {

// Creates physical memory. Shared memory can be opened by other sessions of the allocation, see
// ipc.cc, unless the driver cannot share.
CUresult create_shared(Driver& cu, CUdevice device, uint64_t bytes,
                       CUmemGenericAllocationHandle* handle);
CUresult create_private(Driver& cu, CUdevice device, uint64_t bytes,
                        CUmemGenericAllocationHandle* handle);
// Maps fresh shared memory at an address inside the arena. Leaves nothing behind on failure.
CUresult map_fresh(Driver& cu, CUdevice device, uint64_t at, uint64_t bytes,
                   CUmemGenericAllocationHandle* handle);

// A mapping of physical memory at an address of its own, which ends with the object.
class TemporaryMapping {
 public:
  TemporaryMapping(Driver& cu, CUdevice device, CUmemGenericAllocationHandle handle,
                   uint64_t bytes);
  ~TemporaryMapping();
  TemporaryMapping(const TemporaryMapping&) = delete;
  CUresult status() const { return status_; }
  CUdeviceptr address() const { return at_; }

 private:
  Driver& cu_;
  const uint64_t bytes_;
  CUdeviceptr at_ = 0;  // 0: no address is reserved
  bool mapped_ = false;
  CUresult status_ = CUDA_SUCCESS;
};

}  // namespace busbar::server
