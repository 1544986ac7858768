#include "server/device_scope.h"

namespace busbar::server {

DeviceScope::DeviceScope(Driver& cu, CUdevice device) : cu_(cu), device_(device) {
  CUdevice current = -1;
  if (cu.cuCtxGetDevice(&current) == CUDA_SUCCESS && current == device) return;
  if ((status_ = cu.cuCtxGetCurrent(&before_))) return;
  CUcontext primary = nullptr;
  if ((status_ = cu.cuDevicePrimaryCtxRetain(&primary, device))) return;
  entered_ = true;
  status_ = cu.cuCtxSetCurrent(primary);
}

DeviceScope::~DeviceScope() {
  if (!entered_) return;
  cu_.cuCtxSetCurrent(before_);
  cu_.cuDevicePrimaryCtxRelease(device_);
}

}  // namespace busbar::server
