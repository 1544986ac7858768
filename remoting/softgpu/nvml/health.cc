// Temperature, power, ECC counts and XID events: from the load, or from the conditions file.
#include <nvml.h>
#include <time.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "export.h"
#include "softgpu/nvml/conditions.h"

using namespace softgpu;

namespace {
constexpr unsigned kIdleCelsius = 34, kBusyCelsius = 76, kIdleMilliwatts = 28'000,
                   kLimitMilliwatts = 300'000;

struct EventSet {
  std::map<int, uint64_t> seen;  // by device: last change of its conditions file, in nanoseconds
  std::map<int, nvmlDevice_t> devices;
};
std::mutex g_sets_mutex;
auto* g_sets = new std::set<EventSet*>;

// Get the index and the conditions of a device.
nvmlReturn_t read_conditions(nvmlDevice_t h, int& index, Conditions& c) {
  unsigned i;
  if (nvmlReturn_t r = nvmlDeviceGetIndex(h, &i)) return r;
  index = (int)i;
  c = conditions_of(index);
  return NVML_SUCCESS;
}

unsigned load_percent(nvmlDevice_t h) {
  nvmlUtilization_t u{};
  return nvmlDeviceGetUtilizationRates(h, &u) ? 0 : u.gpu;
}
}  // namespace

#define REQUIRE_CONDITIONS(h)                                  \
  int index;                                                   \
  Conditions c;                                                \
  if (nvmlReturn_t r = read_conditions(h, index, c)) return r; \
  (void)index

API nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t h, nvmlTemperatureSensors_t sensor,
                                          unsigned* out) {
  REQUIRE_CONDITIONS(h);
  if (!out || sensor != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
  *out = (unsigned)c.value("temperature_celsius",
                           kIdleCelsius + load_percent(h) * (kBusyCelsius - kIdleCelsius) / 100);
  return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t h, unsigned* out) {
  REQUIRE_CONDITIONS(h);
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  *out = (unsigned)c.value(
      "power_milliwatts",
      kIdleMilliwatts + load_percent(h) * (kLimitMilliwatts - kIdleMilliwatts) / 100);
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t h, unsigned* out) {
  REQUIRE_CONDITIONS(h);
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  *out = kLimitMilliwatts;
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t h, unsigned* out) {
  return nvmlDeviceGetEnforcedPowerLimit(h, out);
}

API nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t h, nvmlEnableState_t* current,
                                      nvmlEnableState_t* pending) {
  REQUIRE_CONDITIONS(h);
  if (!current || !pending) return NVML_ERROR_INVALID_ARGUMENT;
  *current = *pending = NVML_FEATURE_ENABLED;
  return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t h, nvmlMemoryErrorType_t type,
                                             nvmlEccCounterType_t counter,
                                             unsigned long long* out) {
  REQUIRE_CONDITIONS(h);
  if (!out || type > NVML_MEMORY_ERROR_TYPE_UNCORRECTED || counter > NVML_AGGREGATE_ECC)
    return NVML_ERROR_INVALID_ARGUMENT;
  *out = c.value(type == NVML_MEMORY_ERROR_TYPE_CORRECTED ? "ecc_corrected" : "ecc_uncorrected", 0);
  return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t h, unsigned long long* out) {
  REQUIRE_CONDITIONS(h);
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  *out = nvmlEventTypeXidCriticalError;
  return NVML_SUCCESS;
}

API nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* out) {
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  auto* s = new EventSet;
  std::lock_guard lock(g_sets_mutex);
  g_sets->insert(s);
  *out = (nvmlEventSet_t)s;
  return NVML_SUCCESS;
}

API nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t h) {
  std::lock_guard lock(g_sets_mutex);
  if (!g_sets->erase((EventSet*)h)) return NVML_ERROR_INVALID_ARGUMENT;
  delete (EventSet*)h;
  return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t h, unsigned long long types,
                                          nvmlEventSet_t set) {
  REQUIRE_CONDITIONS(h);
  std::lock_guard lock(g_sets_mutex);
  auto* s = (EventSet*)set;
  if (!g_sets->count(s)) return NVML_ERROR_INVALID_ARGUMENT;
  if (types & ~(unsigned long long)nvmlEventTypeXidCriticalError) return NVML_ERROR_NOT_SUPPORTED;
  s->seen[index] = c.changed;
  s->devices[index] = h;
  return NVML_SUCCESS;
}

// Block until a conditions file has a new XID, for at most timeout_ms.
API nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t* out,
                                     unsigned timeout_ms) {
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  timespec pause{0, 10'000'000};
  for (unsigned waited = 0;; waited += 10) {
    {
      std::lock_guard lock(g_sets_mutex);
      auto* s = (EventSet*)set;
      if (!g_sets->count(s)) return NVML_ERROR_INVALID_ARGUMENT;
      for (auto& [index, seen] : s->seen) {
        Conditions c = conditions_of(index);
        if (c.changed == seen) continue;
        seen = c.changed;
        if (!c.values.count("xid")) continue;
        *out = {};
        out->device = s->devices[index];
        out->eventType = nvmlEventTypeXidCriticalError;
        out->eventData = c.values["xid"];
        return NVML_SUCCESS;
      }
    }
    if (waited >= timeout_ms) return NVML_ERROR_TIMEOUT;
    nanosleep(&pause, nullptr);
  }
}
