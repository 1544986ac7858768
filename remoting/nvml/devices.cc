#include "nvml/devices.h"

#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#include <cstdio>

namespace busbar::nvml {

namespace {
constexpr double kSampleLifetimeSeconds = 0.05;

double now_seconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

const client::NvmlBridge* find_bridge() {
  void* cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  auto tables =
      cuda ? (CUresult (*)(const void**, const CUuuid*))dlsym(cuda, "cuGetExportTable") : nullptr;
  const void* bridge = nullptr;
  CUuuid id;
  __builtin_memcpy(&id, client::kNvmlBridgeId, sizeof id);
  return tables && !tables(&bridge, &id) ? (const client::NvmlBridge*)bridge : nullptr;
}

// Another thread may be in a call when the process forks: the child gets the state after it.
void register_fork_handlers() {
  static const int once =
      pthread_atfork([] { library().mutex.lock(); }, [] { library().mutex.unlock(); },
                     [] { library().mutex.unlock(); });
  (void)once;
}
}  // namespace

Library& library() {
  static auto* l = new Library;
  return *l;
}

nvmlReturn_t open_devices() {
  Library& l = library();
  if (!l.bridge) l.bridge = find_bridge();
  register_fork_handlers();
  if (!l.bridge) return NVML_ERROR_LIBRARY_NOT_FOUND;
  int count = l.bridge->open();
  if (count < 0) return NVML_ERROR_DRIVER_NOT_LOADED;
  for (int i = (int)l.devices.size(); i < count; ++i) {
    auto* d = new Device;
    d->index = i;
    l.bridge->identity(i, &d->identity);
    l.devices.push_back(d);
  }
  return NVML_SUCCESS;
}

Device* device_of(nvmlDevice_t handle) {
  for (Device* d : library().devices)
    if ((nvmlDevice_t)d == handle) return d;
  return nullptr;
}

nvmlReturn_t refresh(Device& d) {
  if (d.sampled_seconds >= 0 && now_seconds() - d.sampled_seconds < kSampleLifetimeSeconds)
    return NVML_SUCCESS;
  d.processes.resize(wire::kNvmlProcesses);
  if (!library().bridge->sample(d.index, &d.sample, d.processes.data()))
    return NVML_ERROR_GPU_IS_LOST;
  d.processes.resize(d.sample.processes);
  d.sampled_seconds = now_seconds();
  return NVML_SUCCESS;
}

std::string uuid_text(const Device& d) {
  char out[48];
  auto* b = (const unsigned char*)d.identity.uuid.bytes;
  std::snprintf(out, sizeof out,
                "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
                b[14], b[15]);
  return out;
}

std::string bus_id(const Device& d) {
  char out[32];
  std::snprintf(out, sizeof out, "%08X:%02X:%02X.0", d.identity.domain, d.identity.bus,
                d.identity.slot);
  return out;
}

}  // namespace busbar::nvml
