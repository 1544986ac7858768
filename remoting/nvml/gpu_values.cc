// NVML entry points: values of the GPU, and values common to all partitions.
#include <nvml.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "nvml/require.h"

using namespace busbar;
using namespace busbar::nvml;

using wire::NvmlField;

template <typename T>
static nvmlReturn_t read_field(nvmlDevice_t h, NvmlField f, T* out) {
  FIND_FRESH_DEVICE(d, h);
  CHECK_ARGUMENT(out);
  if (uint32_t status = d->sample.status[(size_t)f]) return (nvmlReturn_t)status;
  *out = (T)d->sample.value[(size_t)f];
  return NVML_SUCCESS;
}
#define EXPORT_FIELD(name, type, which)              \
  API nvmlReturn_t name(nvmlDevice_t h, type* out) { \
    return read_field(h, NvmlField::which, out);     \
  }
EXPORT_FIELD(nvmlDeviceGetPowerUsage, unsigned, power_usage)
EXPORT_FIELD(nvmlDeviceGetEnforcedPowerLimit, unsigned, power_limit)
EXPORT_FIELD(nvmlDeviceGetPowerManagementLimit, unsigned, power_limit)
EXPORT_FIELD(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, power_limit_default)
EXPORT_FIELD(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, energy)
EXPORT_FIELD(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, pcie_generation)
EXPORT_FIELD(nvmlDeviceGetCurrPcieLinkWidth, unsigned, pcie_width)
EXPORT_FIELD(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, max_pcie_generation)
EXPORT_FIELD(nvmlDeviceGetMaxPcieLinkWidth, unsigned, max_pcie_width)
EXPORT_FIELD(nvmlDeviceGetPerformanceState, nvmlPstates_t, performance_state)
EXPORT_FIELD(nvmlDeviceGetFanSpeed, unsigned, fan_speed)
EXPORT_FIELD(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, architecture)
EXPORT_FIELD(nvmlDeviceGetBrand, nvmlBrandType_t, brand)
EXPORT_FIELD(nvmlDeviceGetNumGpuCores, unsigned, cores)
EXPORT_FIELD(nvmlDeviceGetMemoryBusWidth, unsigned, bus_width)
EXPORT_FIELD(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, throttle_reasons)
EXPORT_FIELD(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, throttle_reasons)

API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t h, nvmlUtilization_t* u) {
  CHECK_ARGUMENT(u);
  if (nvmlReturn_t r = read_field(h, NvmlField::gpu_utilization, &u->gpu)) return r;
  return read_field(h, NvmlField::memory_utilization, &u->memory);
}
API nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t h, nvmlTemperatureSensors_t sensor,
                                          unsigned* out) {
  CHECK_ARGUMENT(sensor == NVML_TEMPERATURE_GPU);
  return read_field(h, NvmlField::temperature, out);
}
API nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t h, nvmlTemperature_t* t) {
  CHECK_ARGUMENT(t && t->sensorType == NVML_TEMPERATURE_GPU);
  unsigned value = 0;
  nvmlReturn_t r = read_field(h, NvmlField::temperature, &value);
  if (!r) t->temperature = (int)value;
  return r;
}
API nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t h,
                                                   nvmlTemperatureThresholds_t which,
                                                   unsigned* out) {
  if (which == NVML_TEMPERATURE_THRESHOLD_SHUTDOWN)
    return read_field(h, NvmlField::temperature_shutdown, out);
  return which == NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
             ? read_field(h, NvmlField::temperature_slowdown, out)
             : NVML_ERROR_NOT_SUPPORTED;
}
API nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t h, unsigned* least,
                                                              unsigned* most) {
  if (nvmlReturn_t r = read_field(h, NvmlField::power_limit_min, least)) return r;
  return read_field(h, NvmlField::power_limit_max, most);
}
API nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t h, nvmlClockType_t type, unsigned* out) {
  CHECK_ARGUMENT((unsigned)type < NVML_CLOCK_COUNT);
  return read_field(h, (NvmlField)((uint32_t)NvmlField::clock_graphics + type), out);
}
API nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t h, nvmlClockType_t type, unsigned* out) {
  CHECK_ARGUMENT((unsigned)type < NVML_CLOCK_COUNT);
  return read_field(h, (NvmlField)((uint32_t)NvmlField::max_clock_graphics + type), out);
}
API nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t h, nvmlClockType_t type, nvmlClockId_t id,
                                    unsigned* out) {
  return id == NVML_CLOCK_ID_CURRENT ? nvmlDeviceGetClockInfo(h, type, out)
                                     : NVML_ERROR_NOT_SUPPORTED;
}
API nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t h, nvmlEnableState_t* current,
                                      nvmlEnableState_t* pending) {
  if (nvmlReturn_t r = read_field(h, NvmlField::ecc_current, current)) return r;
  return read_field(h, NvmlField::ecc_pending, pending);
}
API nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t h, nvmlMemoryErrorType_t type,
                                             nvmlEccCounterType_t counter, unsigned long long* n) {
  if (counter != NVML_VOLATILE_ECC) return NVML_ERROR_NOT_SUPPORTED;
  return read_field(h,
                    type == NVML_MEMORY_ERROR_TYPE_CORRECTED ? NvmlField::volatile_corrected
                                                             : NvmlField::volatile_uncorrected,
                    n);
}
API nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t h, unsigned* u, unsigned* period) {
  if (period) *period = 0;
  return read_field(h, NvmlField::encoder_utilization, u);
}
API nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t h, unsigned* u, unsigned* period) {
  if (period) *period = 0;
  return read_field(h, NvmlField::decoder_utilization, u);
}

// ---- values common to all partitions ----
API nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t h, nvmlComputeMode_t* mode) {
  FIND_DEVICE(d, h);
  (void)d;
  CHECK_ARGUMENT(mode);
  *mode = NVML_COMPUTEMODE_DEFAULT;
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t h, nvmlEnableState_t* mode) {
  FIND_DEVICE(d, h);
  (void)d;
  CHECK_ARGUMENT(mode);
  *mode = NVML_FEATURE_ENABLED;
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t h, nvmlEnableState_t* mode) {
  FIND_DEVICE(d, h);
  (void)d;
  CHECK_ARGUMENT(mode);
  *mode = NVML_FEATURE_DISABLED;
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t h, nvmlEnableState_t* mode) {
  return nvmlDeviceGetDisplayMode(h, mode);
}
API nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t h, unsigned* current, unsigned* pending) {
  FIND_DEVICE(d, h);
  (void)d;
  CHECK_ARGUMENT(current && pending);
  *current = *pending = NVML_DEVICE_MIG_DISABLE;
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, nvmlGpuP2PCapsIndex_t,
                                        nvmlGpuP2PStatus_t* out) {
  FIND_DEVICE(d, a);
  CHECK_ARGUMENT(out && device_of(b));
  *out = d == device_of(b) ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t h, nvmlBAR1Memory_t* m) {
  FIND_DEVICE(d, h);
  (void)d;
  CHECK_ARGUMENT(m);
  *m = {};
  return NVML_ERROR_NOT_SUPPORTED;
}
