// Constant properties of the software GPU, as far as it has them: those that CUDA reports too, and
// limits of the simulated temperature and power.
#include <nvml.h>

#include "export.h"

namespace {
constexpr unsigned kClockMhz = 1000, kBusBits = 256;  // as the attributes of CUDA say
constexpr unsigned kLinkGeneration = 4, kLinkLanes = 16;
constexpr unsigned kSlowdownCelsius = 90, kShutdownCelsius = 95;
constexpr unsigned kLeastMilliwatts = 100'000;

// Return an error for a handle that is no device, or without room for the result.
nvmlReturn_t check(nvmlDevice_t h, const void* out) {
  unsigned index;
  nvmlReturn_t r = nvmlDeviceGetIndex(h, &index);
  return r || out ? r : NVML_ERROR_INVALID_ARGUMENT;
}

template <typename T>
nvmlReturn_t give(nvmlDevice_t h, T* out, T value) {
  nvmlReturn_t r = check(h, out);
  if (!r) *out = value;
  return r;
}
}  // namespace

API nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t h, nvmlBrandType_t* out) {
  return give(h, out, NVML_BRAND_UNKNOWN);
}
API nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t h, char* out, unsigned room) {
  constexpr char kVersion[] = "00.00.00.00.00";
  if (nvmlReturn_t r = check(h, out)) return r;
  if (room < sizeof kVersion) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (unsigned i = 0; i < sizeof kVersion; ++i) out[i] = kVersion[i];
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetMemoryBusWidth(nvmlDevice_t h, unsigned* out) {
  return give(h, out, kBusBits);
}
API nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t h, nvmlPstates_t* out) {
  return give(h, out, NVML_PSTATE_0);
}
API nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t h, unsigned long long* out) {
  return give(h, out, (unsigned long long)nvmlClocksEventReasonNone);
}

API nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t h, nvmlClockType_t type, unsigned* out) {
  if ((unsigned)type >= NVML_CLOCK_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
  return give(h, out, kClockMhz);
}
API nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t h, nvmlClockType_t type, unsigned* out) {
  return nvmlDeviceGetClockInfo(h, type, out);
}

API nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t h, unsigned* out) {
  return give(h, out, kLinkGeneration);
}
API nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t h, unsigned* out) {
  return give(h, out, kLinkGeneration);
}
API nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t h, unsigned* out) {
  return give(h, out, kLinkLanes);
}
API nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t h, unsigned* out) {
  return give(h, out, kLinkLanes);
}

API nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t h,
                                                   nvmlTemperatureThresholds_t which,
                                                   unsigned* out) {
  if (which != NVML_TEMPERATURE_THRESHOLD_SHUTDOWN && which != NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
    return NVML_ERROR_NOT_SUPPORTED;
  return give(h, out,
              which == NVML_TEMPERATURE_THRESHOLD_SHUTDOWN ? kShutdownCelsius : kSlowdownCelsius);
}
API nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t h, unsigned* out) {
  return nvmlDeviceGetEnforcedPowerLimit(h, out);
}
API nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t h, unsigned* least,
                                                              unsigned* most) {
  if (nvmlReturn_t r = give(h, least, kLeastMilliwatts)) return r;
  return nvmlDeviceGetEnforcedPowerLimit(h, most);
}
