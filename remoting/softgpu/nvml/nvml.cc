// NVML of the software GPU: NVIDIA's public interface to the pages of processes.
#include <nvml.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "export.h"
#include "pci_address.h"
#include "softgpu/device/clock.h"
#include "softgpu/device/engine.h"
#include "softgpu/device/identity.h"
#include "softgpu/nvml/conditions.h"

using namespace softgpu;

namespace {
struct Device {
  int index = 0;
  Engine* engine = nullptr;
  std::map<ino_t, uint64_t> busy_before;  // nanoseconds of each process, at the last sample
  uint64_t sampled_at = 0;                // nanoseconds; 0: never
  unsigned utilisation = 0;               // percent
};
std::mutex g_mutex;
int g_references = 0;
std::vector<Device>* g_devices = nullptr;

Device* device(nvmlDevice_t h) {
  if (!g_devices) return nullptr;
  for (auto& d : *g_devices)
    if ((nvmlDevice_t)&d == h) return &d;
  return nullptr;
}

// Return the time that processes say they had the engine since the last sample, each not more than
// `elapsed`.
uint64_t busy_since_sample(Device& d, uint64_t elapsed) {
  uint64_t total = 0;
  std::map<ino_t, uint64_t> busy;
  for (auto& p : d.engine->processes()) {
    uint64_t before = d.busy_before[p.file];
    total += p.busy_nanoseconds > before ? std::min(p.busy_nanoseconds - before, elapsed) : 0;
    busy[p.file] = p.busy_nanoseconds;
  }
  d.busy_before = std::move(busy);
  return total;
}

// Return the percentage of time that the engine was held since the last sample. Samples are at
// least 100 ms apart.
unsigned utilisation(Device& d) {
  uint64_t at = now(), elapsed = at - d.sampled_at;
  if (elapsed < 100'000'000) return d.utilisation;
  uint64_t busy = busy_since_sample(d, elapsed);
  d.utilisation = d.sampled_at ? (unsigned)std::min<uint64_t>(100, busy * 100 / elapsed) : 0;
  d.sampled_at = at;
  return d.utilisation;
}
}  // namespace

#define REQUIRE_NVML_DEVICE(d, h)                     \
  std::lock_guard lock(g_mutex);                      \
  if (!g_references) return NVML_ERROR_UNINITIALIZED; \
  Device* d = device(h);                              \
  if (!d) return NVML_ERROR_INVALID_ARGUMENT;         \
  if (conditions_of(d->index).removed()) return NVML_ERROR_GPU_IS_LOST
#define REQUIRE_ARGUMENT(p) \
  if (!(p)) return NVML_ERROR_INVALID_ARGUMENT
#define REQUIRE_NVML()           \
  std::lock_guard lock(g_mutex); \
  if (!g_references) return NVML_ERROR_UNINITIALIZED

API int refuse_call(const char*, int result) {
  return result;
}

API nvmlReturn_t nvmlInit_v2(void) {
  std::lock_guard lock(g_mutex);
  if (g_references++ || g_devices) return NVML_SUCCESS;
  DeviceConfig config = config_from_environment();
  auto* devices = new std::vector<Device>;
  for (int i = 0; i < config.count; ++i) {
    Engine* e = Engine::open(i, config, false);
    if (!e) {
      --g_references;
      return NVML_ERROR_DRIVER_NOT_LOADED;
    }
    Device d;
    d.index = i;
    d.engine = e;
    devices->push_back(d);
  }
  g_devices = devices;
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlInitWithFlags(unsigned) {
  return nvmlInit_v2();
}
#undef nvmlInit
API nvmlReturn_t nvmlInit(void) {
  return nvmlInit_v2();
}
API nvmlReturn_t nvmlShutdown(void) {
  REQUIRE_NVML();
  --g_references;
  return NVML_SUCCESS;
}
API const char* nvmlErrorString(nvmlReturn_t r) {
  return r == NVML_SUCCESS                   ? "Success"
         : r == NVML_ERROR_UNINITIALIZED     ? "Uninitialized"
         : r == NVML_ERROR_INVALID_ARGUMENT  ? "Invalid Argument"
         : r == NVML_ERROR_NOT_SUPPORTED     ? "Not Supported"
         : r == NVML_ERROR_NOT_FOUND         ? "Not Found"
         : r == NVML_ERROR_INSUFFICIENT_SIZE ? "Insufficient Size"
         : r == NVML_ERROR_GPU_IS_LOST       ? "GPU is lost"
         : r == NVML_ERROR_TIMEOUT           ? "Timeout"
                                             : "Unknown Error";
}

static nvmlReturn_t text(char* out, unsigned room, const std::string& value) {
  REQUIRE_ARGUMENT(out);
  if (value.size() + 1 > room) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(out, value.c_str(), value.size() + 1);
  return NVML_SUCCESS;
}

// The texts have NVIDIA's form, because programs parse them. The name of the GPU tells what it is.
API nvmlReturn_t nvmlSystemGetDriverVersion(char* out, unsigned room) {
  return text(out, room, "580.00.00");
}
API nvmlReturn_t nvmlSystemGetDriverBranch(nvmlSystemDriverBranchInfo_t* info, unsigned room) {
  REQUIRE_ARGUMENT(info);
  if (info->version != nvmlSystemDriverBranchInfo_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  return text(info->branch, std::min<unsigned>(room, sizeof info->branch), "r580_00");
}
API nvmlReturn_t nvmlSystemGetNVMLVersion(char* out, unsigned room) {
  return text(out, room, "13.580.00");
}
API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* v) {
  REQUIRE_ARGUMENT(v);
  *v = 13000;
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* v) {
  REQUIRE_ARGUMENT(v);
  *v = 13000;
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* n) {
  REQUIRE_NVML();
  REQUIRE_ARGUMENT(n);
  *n = (unsigned)g_devices->size();
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned i, nvmlDevice_t* out) {
  REQUIRE_NVML();
  REQUIRE_ARGUMENT(out && i < g_devices->size());
  *out = (nvmlDevice_t) & (*g_devices)[i];
  return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* out) {
  REQUIRE_NVML();
  REQUIRE_ARGUMENT(uuid && out);
  for (auto& d : *g_devices)
    if (uuid_text(d.index) == uuid) {
      *out = (nvmlDevice_t)&d;
      return NVML_SUCCESS;
    }
  return NVML_ERROR_NOT_FOUND;
}

API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* id, nvmlDevice_t* out) {
  REQUIRE_NVML();
  REQUIRE_ARGUMENT(id && out);
  auto address = busbar::read_pci_address(id);
  REQUIRE_ARGUMENT(address);
  for (auto& d : *g_devices)
    if (address == busbar::PciAddress{.bus = (unsigned)d.index + 1}) {
      *out = (nvmlDevice_t)&d;
      return NVML_SUCCESS;
    }
  return NVML_ERROR_NOT_FOUND;
}

API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t h, unsigned* i) {
  REQUIRE_NVML_DEVICE(d, h);
  REQUIRE_ARGUMENT(i);
  *i = (unsigned)d->index;
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t h, unsigned* i) {
  REQUIRE_NVML_DEVICE(d, h);
  REQUIRE_ARGUMENT(i);
  *i = (unsigned)d->index;
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t h, char* out, unsigned room) {
  REQUIRE_NVML_DEVICE(d, h);
  (void)d;
  return text(out, room, "Software GPU");
}
API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t h, char* out, unsigned room) {
  REQUIRE_NVML_DEVICE(d, h);
  return text(out, room, uuid_text(d->index));
}

API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t h, nvmlPciInfo_t* p) {
  REQUIRE_NVML_DEVICE(d, h);
  REQUIRE_ARGUMENT(p);
  *p = {};
  p->bus = (unsigned)d->index + 1;
  std::snprintf(p->busId, sizeof p->busId, "00000000:%02X:00.0", p->bus);
  std::snprintf(p->busIdLegacy, sizeof p->busIdLegacy, "0000:%02X:00.0", p->bus);
  return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t h, nvmlMemory_t* m) {
  REQUIRE_NVML_DEVICE(d, h);
  REQUIRE_ARGUMENT(m);
  m->total = d->engine->total_bytes();
  m->used = d->engine->used_bytes();
  m->free = m->total - std::min<unsigned long long>(m->total, m->used);
  return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t h, nvmlMemory_v2_t* m) {
  nvmlMemory_t plain;
  nvmlReturn_t r = nvmlDeviceGetMemoryInfo(h, &plain);
  if (r || !m) return r ? r : NVML_ERROR_INVALID_ARGUMENT;
  m->total = plain.total;
  m->used = plain.used;
  m->free = plain.free;
  m->reserved = 0;
  return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t h, nvmlUtilization_t* u) {
  REQUIRE_NVML_DEVICE(d, h);
  REQUIRE_ARGUMENT(u);
  u->gpu = utilisation(*d);
  u->memory = (unsigned)(d->engine->used_bytes() * 100 / d->engine->total_bytes());
  return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t h, int* major, int* minor) {
  REQUIRE_NVML_DEVICE(d, h);
  REQUIRE_ARGUMENT(major && minor);
  *major = (int)d->engine->config().compute_major;
  *minor = (int)d->engine->config().compute_minor;
  return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t h, nvmlDeviceArchitecture_t* out) {
  REQUIRE_NVML_DEVICE(d, h);
  REQUIRE_ARGUMENT(out);
  const DeviceConfig* e = &d->engine->config();
  switch (e->compute_major) {
    case 7: *out = e->compute_minor < 5 ? NVML_DEVICE_ARCH_VOLTA : NVML_DEVICE_ARCH_TURING; break;
    case 8: *out = e->compute_minor < 9 ? NVML_DEVICE_ARCH_AMPERE : NVML_DEVICE_ARCH_ADA; break;
    case 9: *out = NVML_DEVICE_ARCH_HOPPER; break;
    case 10:
    case 12: *out = NVML_DEVICE_ARCH_BLACKWELL; break;
    default: *out = NVML_DEVICE_ARCH_UNKNOWN;
  }
  return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t h, unsigned* out) {
  REQUIRE_NVML_DEVICE(d, h);
  REQUIRE_ARGUMENT(out);
  constexpr unsigned kCoresOfMultiprocessor = 128;
  // NOLINTNEXTLINE(custom-unchecked-product): at most 256 multiprocessors
  *out = d->engine->config().multiprocessors * kCoresOfMultiprocessor;
  return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t h, nvmlComputeMode_t* mode) {
  REQUIRE_NVML_DEVICE(d, h);
  (void)d;
  REQUIRE_ARGUMENT(mode);
  *mode = NVML_COMPUTEMODE_DEFAULT;
  return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t h, unsigned* count,
                                                         nvmlProcessInfo_t* out) {
  REQUIRE_NVML_DEVICE(d, h);
  REQUIRE_ARGUMENT(count);
  unsigned room = *count, n = 0;
  for (auto& s : d->engine->processes()) {
    if (n < room && out) {
      out[n] = {};
      out[n].pid = (unsigned)s.pid;
      out[n].usedGpuMemory = s.memory_bytes;
      out[n].gpuInstanceId = out[n].computeInstanceId = 0xFFFFFFFF;
    }
    ++n;
  }
  *count = n;
  return n > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}
