#include "softgpu/driver/driver.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>

#include "softgpu/device/identity.h"
#include "visible_devices.h"

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

static std::vector<size_t> read_visible_devices(int count) {
  std::vector<busbar::DeviceUuid> uuids;
  for (int i = 0; i < count; ++i) uuids.push_back(uuid_of(i));
  return busbar::visible_devices(std::getenv("CUDA_VISIBLE_DEVICES"), uuids);
}

static bool open_device(Driver& d, int index) {
  auto dev = std::make_unique<DeviceState>();
  dev->ordinal = (int)d.devices.size();
  dev->index = index;
  dev->engine = Engine::open(index, d.config, true);
  if (!dev->engine) return false;
  d.devices.push_back(std::move(dev));
  return true;
}

CUresult start_driver() {
  static std::mutex once;
  std::lock_guard lock(once);
  if (g_driver) return g_forked ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
  auto* d = new Driver;
  d->config = config_from_environment();
  static const std::vector<size_t> visible = read_visible_devices(d->config.count);
  bool opened = std::ranges::all_of(visible, [&](size_t i) { return open_device(*d, (int)i); });
  if (!opened || visible.empty()) {
    delete d;
    return CUDA_ERROR_NO_DEVICE;
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
