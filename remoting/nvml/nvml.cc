// NVML for the program: its partitions, with the clocks, temperature and power of the GPUs they are
// on. Every other symbol of nvml.h is there and answers NOT_SUPPORTED.
#include <nvml.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "nvml/devices.h"

using namespace busbar;
using namespace busbar::nvml;
using wire::NvmlField;

#define API extern "C" __attribute__((visibility("default")))
#define NEED(p) \
  if (!(p)) return NVML_ERROR_INVALID_ARGUMENT
#define READY                            \
  std::lock_guard lock(library().mutex); \
  if (!library().references) return NVML_ERROR_UNINITIALIZED
#define DEVICE(d, h)        \
  READY;                    \
  Device* d = device_of(h); \
  if (!d) return NVML_ERROR_INVALID_ARGUMENT
#define SAMPLE(d, h) \
  DEVICE(d, h);      \
  if (nvmlReturn_t r = refresh(*d)) return r

API int refuse_call(const char*, int result) {
  return result;
}

// ---- the library ----
API nvmlReturn_t nvmlInit_v2(void) {
  std::lock_guard lock(library().mutex);
  if (nvmlReturn_t r = open_devices()) return r;
  ++library().references;
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
  READY;
  --library().references;
  return NVML_SUCCESS;
}

API const char* nvmlErrorString(nvmlReturn_t r) {
  switch (r) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_LIBRARY_NOT_FOUND: return "NVML Shared Library Not Found";
    case NVML_ERROR_FUNCTION_NOT_FOUND: return "Function Not Found";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    default: return "Unknown Error";
  }
}

static nvmlReturn_t text(char* out, unsigned room, const std::string& value) {
  NEED(out);
  if (value.size() + 1 > room) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(out, value.c_str(), value.size() + 1);
  return NVML_SUCCESS;
}

API nvmlReturn_t nvmlSystemGetDriverVersion(char* out, unsigned room) {
  READY;
  if (library().devices.empty()) return NVML_ERROR_NOT_SUPPORTED;
  if (nvmlReturn_t r = refresh(*library().devices.front())) return r;
  return text(out, room, library().devices.front()->sample.driver_version);
}
API nvmlReturn_t nvmlSystemGetNVMLVersion(char* out, unsigned room) {
  return text(out, room, "13.busbar");
}
API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* v) {
  READY;
  NEED(v);
  *v = library().door->driver_version();
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* v) {
  return nvmlSystemGetCudaDriverVersion_v2(v);
}
API nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char* name, unsigned room) {
  NEED(name && room);
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%u/comm", pid);
  FILE* f = std::fopen(path, "r");
  if (!f) return NVML_ERROR_NOT_FOUND;
  bool fine = std::fgets(name, (int)room, f);
  std::fclose(f);
  if (fine) name[strcspn(name, "\n")] = 0;
  return fine ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

// ---- which device ----
API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* n) {
  READY;
  NEED(n);
  *n = (unsigned)library().devices.size();
  return NVML_SUCCESS;
}
#undef nvmlDeviceGetCount
API nvmlReturn_t nvmlDeviceGetCount(unsigned* n) {
  return nvmlDeviceGetCount_v2(n);
}
API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned i, nvmlDevice_t* out) {
  READY;
  NEED(out && i < library().devices.size());
  *out = (nvmlDevice_t)library().devices[i];
  return NVML_SUCCESS;
}
#undef nvmlDeviceGetHandleByIndex
API nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned i, nvmlDevice_t* out) {
  return nvmlDeviceGetHandleByIndex_v2(i, out);
}
API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* out) {
  READY;
  NEED(uuid && out);
  for (Device* d : library().devices)
    if (uuid_text(*d) == uuid) {
      *out = (nvmlDevice_t)d;
      return NVML_SUCCESS;
    }
  return NVML_ERROR_NOT_FOUND;
}
API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* id, nvmlDevice_t* out) {
  READY;
  unsigned domain = 0, bus = 0, slot = 0;
  NEED(id && out && std::sscanf(id, "%x:%x:%x", &domain, &bus, &slot) == 3);
  for (Device* d : library().devices)
    if (d->identity.domain == domain && d->identity.bus == bus && d->identity.slot == slot) {
      *out = (nvmlDevice_t)d;
      return NVML_SUCCESS;
    }
  return NVML_ERROR_NOT_FOUND;
}
#undef nvmlDeviceGetHandleByPciBusId
API nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* id, nvmlDevice_t* out) {
  return nvmlDeviceGetHandleByPciBusId_v2(id, out);
}

// ---- who it is ----
API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t h, unsigned* i) {
  DEVICE(d, h);
  NEED(i);
  *i = (unsigned)d->index;
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t h, unsigned* i) {
  return nvmlDeviceGetIndex(h, i);
}
API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t h, char* out, unsigned room) {
  DEVICE(d, h);
  return text(out, room, d->identity.name);
}
API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t h, char* out, unsigned room) {
  DEVICE(d, h);
  return text(out, room, uuid_text(*d));
}
API nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t h, char* out, unsigned room) {
  SAMPLE(d, h);
  return *d->sample.vbios ? text(out, room, d->sample.vbios) : NVML_ERROR_NOT_SUPPORTED;
}
API nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t h, char* out, unsigned room) {
  SAMPLE(d, h);
  return *d->sample.serial ? text(out, room, d->sample.serial) : NVML_ERROR_NOT_SUPPORTED;
}
API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t h, int* major, int* minor) {
  DEVICE(d, h);
  NEED(major && minor);
  *major = (int)d->identity.major;
  *minor = (int)d->identity.minor;
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t h, nvmlPciInfo_t* p) {
  DEVICE(d, h);
  NEED(p);
  *p = {};
  p->domain = d->identity.domain;
  p->bus = d->identity.bus;
  p->device = d->identity.slot;
  std::snprintf(p->busId, sizeof p->busId, "%s", bus_id(*d).c_str());
  std::snprintf(p->busIdLegacy, sizeof p->busIdLegacy, "%04X:%02X:%02X.0", p->domain, p->bus,
                p->device);
  return NVML_SUCCESS;
}
#undef nvmlDeviceGetPciInfo
API nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t h, nvmlPciInfo_t* p) {
  return nvmlDeviceGetPciInfo_v3(h, p);
}
API nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t h, nvmlPciInfo_t* p) {
  return nvmlDeviceGetPciInfo_v3(h, p);
}

// ---- what is the partition's own ----
API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t h, nvmlMemory_t* m) {
  SAMPLE(d, h);
  NEED(m);
  m->total = d->sample.memory_total;
  m->used = std::min(d->sample.memory_used, d->sample.memory_total);
  m->free = m->total - m->used;
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t h, nvmlMemory_v2_t* m) {
  nvmlMemory_t plain;
  NEED(m);
  if (nvmlReturn_t r = nvmlDeviceGetMemoryInfo(h, &plain)) return r;
  m->total = plain.total;
  m->used = plain.used;
  m->free = plain.free;
  m->reserved = 0;
  return NVML_SUCCESS;
}

template <typename Info>
static nvmlReturn_t processes(nvmlDevice_t h, unsigned* count, Info* out) {
  SAMPLE(d, h);
  NEED(count);
  unsigned room = *count, n = (unsigned)d->processes.size();
  *count = n;
  if (n > room) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (unsigned i = 0; i < n; ++i) {
    std::memset(&out[i], 0, sizeof out[i]);
    out[i].pid = d->processes[i].pid;
    out[i].usedGpuMemory = d->processes[i].bytes;
  }
  return NVML_SUCCESS;
}
static nvmlReturn_t none(nvmlDevice_t h, unsigned* count) {
  DEVICE(d, h);
  (void)d;
  NEED(count);
  *count = 0;
  return NVML_SUCCESS;
}
#undef nvmlDeviceGetComputeRunningProcesses
#undef nvmlDeviceGetGraphicsRunningProcesses
#undef nvmlDeviceGetMPSComputeRunningProcesses
API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t h, unsigned* n,
                                                         nvmlProcessInfo_t* out) {
  nvmlReturn_t r = processes(h, n, out);
  for (unsigned i = 0; !r && out && i < *n; ++i)
    out[i].gpuInstanceId = out[i].computeInstanceId = 0xFFFFFFFF;
  return r;
}
API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t h, unsigned* n,
                                                         nvmlProcessInfo_v2_t* out) {
  return processes(h, n, out);
}
API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t h, unsigned* n,
                                                      nvmlProcessInfo_v1_t* out) {
  return processes(h, n, out);
}
API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t h, unsigned* n,
                                                          nvmlProcessInfo_t*) {
  return none(h, n);
}
API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t h, unsigned* n,
                                                          nvmlProcessInfo_v2_t*) {
  return none(h, n);
}
API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t h, unsigned* n,
                                                       nvmlProcessInfo_v1_t*) {
  return none(h, n);
}
API nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t h, unsigned* n,
                                                            nvmlProcessInfo_t*) {
  return none(h, n);
}

// ---- what is the GPU's ----
template <typename T>
static nvmlReturn_t field(nvmlDevice_t h, NvmlField f, T* out) {
  SAMPLE(d, h);
  NEED(out);
  if (uint32_t status = d->sample.status[(size_t)f]) return (nvmlReturn_t)status;
  *out = (T)d->sample.value[(size_t)f];
  return NVML_SUCCESS;
}
#define FIELD(name, type, which)                     \
  API nvmlReturn_t name(nvmlDevice_t h, type* out) { \
    return field(h, NvmlField::which, out);          \
  }
FIELD(nvmlDeviceGetPowerUsage, unsigned, power_usage)
FIELD(nvmlDeviceGetEnforcedPowerLimit, unsigned, power_limit)
FIELD(nvmlDeviceGetPowerManagementLimit, unsigned, power_limit)
FIELD(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, power_limit_default)
FIELD(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, energy)
FIELD(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, pcie_generation)
FIELD(nvmlDeviceGetCurrPcieLinkWidth, unsigned, pcie_width)
FIELD(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, max_pcie_generation)
FIELD(nvmlDeviceGetMaxPcieLinkWidth, unsigned, max_pcie_width)
FIELD(nvmlDeviceGetPerformanceState, nvmlPstates_t, performance_state)
FIELD(nvmlDeviceGetFanSpeed, unsigned, fan_speed)
FIELD(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, architecture)
FIELD(nvmlDeviceGetBrand, nvmlBrandType_t, brand)
FIELD(nvmlDeviceGetNumGpuCores, unsigned, cores)
FIELD(nvmlDeviceGetMemoryBusWidth, unsigned, bus_width)
FIELD(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, throttle_reasons)
FIELD(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, throttle_reasons)

API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t h, nvmlUtilization_t* u) {
  NEED(u);
  if (nvmlReturn_t r = field(h, NvmlField::gpu_utilization, &u->gpu)) return r;
  return field(h, NvmlField::memory_utilization, &u->memory);
}
API nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t h, nvmlTemperatureSensors_t sensor,
                                          unsigned* out) {
  NEED(sensor == NVML_TEMPERATURE_GPU);
  return field(h, NvmlField::temperature, out);
}
API nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t h, nvmlTemperature_t* t) {
  NEED(t && t->sensorType == NVML_TEMPERATURE_GPU);
  unsigned value = 0;
  nvmlReturn_t r = field(h, NvmlField::temperature, &value);
  if (!r) t->temperature = (int)value;
  return r;
}
API nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t h,
                                                   nvmlTemperatureThresholds_t which,
                                                   unsigned* out) {
  if (which == NVML_TEMPERATURE_THRESHOLD_SHUTDOWN)
    return field(h, NvmlField::temperature_shutdown, out);
  return which == NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
             ? field(h, NvmlField::temperature_slowdown, out)
             : NVML_ERROR_NOT_SUPPORTED;
}
API nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t h, unsigned* least,
                                                              unsigned* most) {
  if (nvmlReturn_t r = field(h, NvmlField::power_limit_min, least)) return r;
  return field(h, NvmlField::power_limit_max, most);
}
API nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t h, nvmlClockType_t type, unsigned* out) {
  NEED(type < NVML_CLOCK_COUNT);
  return field(h, (NvmlField)((uint32_t)NvmlField::clock_graphics + type), out);
}
API nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t h, nvmlClockType_t type, unsigned* out) {
  NEED(type < NVML_CLOCK_COUNT);
  return field(h, (NvmlField)((uint32_t)NvmlField::max_clock_graphics + type), out);
}
API nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t h, nvmlClockType_t type, nvmlClockId_t id,
                                    unsigned* out) {
  return id == NVML_CLOCK_ID_CURRENT ? nvmlDeviceGetClockInfo(h, type, out)
                                     : NVML_ERROR_NOT_SUPPORTED;
}
API nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t h, nvmlEnableState_t* current,
                                      nvmlEnableState_t* pending) {
  if (nvmlReturn_t r = field(h, NvmlField::ecc_current, current)) return r;
  return field(h, NvmlField::ecc_pending, pending);
}
API nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t h, nvmlMemoryErrorType_t type,
                                             nvmlEccCounterType_t counter, unsigned long long* n) {
  if (counter != NVML_VOLATILE_ECC) return NVML_ERROR_NOT_SUPPORTED;
  return field(h,
               type == NVML_MEMORY_ERROR_TYPE_CORRECTED ? NvmlField::volatile_corrected
                                                        : NvmlField::volatile_uncorrected,
               n);
}
API nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t h, unsigned* u, unsigned* period) {
  if (period) *period = 0;
  return field(h, NvmlField::encoder_utilization, u);
}
API nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t h, unsigned* u, unsigned* period) {
  if (period) *period = 0;
  return field(h, NvmlField::decoder_utilization, u);
}

// ---- what holds for every partition ----
API nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t h, nvmlComputeMode_t* mode) {
  DEVICE(d, h);
  (void)d;
  NEED(mode);
  *mode = NVML_COMPUTEMODE_DEFAULT;
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t h, nvmlEnableState_t* mode) {
  DEVICE(d, h);
  (void)d;
  NEED(mode);
  *mode = NVML_FEATURE_ENABLED;
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t h, nvmlEnableState_t* mode) {
  DEVICE(d, h);
  (void)d;
  NEED(mode);
  *mode = NVML_FEATURE_DISABLED;
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t h, nvmlEnableState_t* mode) {
  return nvmlDeviceGetDisplayMode(h, mode);
}
API nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t h, unsigned* current, unsigned* pending) {
  DEVICE(d, h);
  (void)d;
  NEED(current && pending);
  *current = *pending = NVML_DEVICE_MIG_DISABLE;
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, nvmlGpuP2PCapsIndex_t,
                                        nvmlGpuP2PStatus_t* out) {
  DEVICE(d, a);
  NEED(out && device_of(b));
  *out = d == device_of(b) ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t h, nvmlBAR1Memory_t* m) {
  DEVICE(d, h);
  (void)d;
  NEED(m);
  *m = {};
  return NVML_ERROR_NOT_SUPPORTED;
}
