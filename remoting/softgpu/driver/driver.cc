#include "softgpu/driver/driver.h"

#include <unistd.h>

namespace softgpu {

static Driver* g_driver = nullptr;

Driver* driver() {
  return g_driver && g_driver->pid == getpid() ? g_driver : nullptr;
}

DeviceState* device_at(int ordinal) {
  Driver* d = driver();
  return d && ordinal >= 0 && ordinal < (int)d->devices.size() ? d->devices[(size_t)ordinal].get()
                                                               : nullptr;
}

CUresult start_driver() {
  static std::mutex once;
  std::lock_guard lock(once);
  if (g_driver) return g_driver->pid == getpid() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
  auto* d = new Driver;
  d->config = config_from_environment();
  d->pid = getpid();
  for (int i = 0; i < d->config.count; ++i) {
    auto dev = std::make_unique<DeviceState>();
    dev->ordinal = i;
    dev->engine = Engine::open(i, d->config, true);
    if (!dev->engine) {
      delete d;
      return CUDA_ERROR_NO_DEVICE;
    }
    d->devices.push_back(std::move(dev));
  }
  if (!d->compiler.start()) {
    delete d;
    return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
  }
  g_driver = d;
  return CUDA_SUCCESS;
}

}  // namespace softgpu
