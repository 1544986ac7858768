// The device of this thread's calls to the driver.
//
// Thread safety: any thread, for itself.
#pragma once
#include <cuda.h>

#include "server/driver.h"

namespace busbar::server {

// Makes a context of a device current, so that memory is allocated where it is charged, whatever
// context a record names. The earlier context is current again at the end.
class DeviceScope {
 public:
  DeviceScope(Driver& cu, CUdevice device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  // Of entering: without success nothing may be allocated.
  CUresult status() const { return status_; }

 private:
  Driver& cu_;
  CUdevice device_;
  CUcontext before_ = nullptr;
  bool entered_ = false;
  CUresult status_ = CUDA_SUCCESS;
};

}  // namespace busbar::server
