#include "softgpu/driver/driver.h"

#include <pthread.h>

namespace softgpu {

static Driver* g_driver = nullptr;
static bool g_forked = false;  // the driver is that of the parent process

Driver* driver() {
  return g_forked ? nullptr : g_driver;
}

DeviceState* device_at(int ordinal) {
  Driver* d = driver();
  return d && ordinal >= 0 && ordinal < (int)d->devices.size() ? d->devices[(size_t)ordinal].get()
                                                               : nullptr;
}

CUresult start_driver() {
  static std::mutex once;
  std::lock_guard lock(once);
  if (g_driver) return g_forked ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
  auto* d = new Driver;
  d->config = config_from_environment();
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
  // A system call per CUDA call would find a fork, too, at the cost of a filtered getpid.
  pthread_atfork(nullptr, nullptr, [] { g_forked = true; });
  g_driver = d;
  return CUDA_SUCCESS;
}

}  // namespace softgpu
