// The node's NVML for a partition: clocks, temperature and power are the GPU's, memory and
// processes the allocation's own.
#include "server/nvml.h"

#include <dlfcn.h>
#include <nvml.h>

#include <algorithm>
#include <cstring>

#include "server/session.h"

namespace busbar::server {

namespace {
using wire::NvmlField;
using wire::NvmlSample;

struct Library {
  void* handle = nullptr;
  template <typename F>
  F* find(const char* name) const {
    return handle ? (F*)dlsym(handle, name) : nullptr;
  }
};
Library g_library;

#define NVML(name) g_library.find<decltype(name)>(#name)

class Reader {
 public:
  Reader(nvmlDevice_t device, NvmlSample& out) : device_(device), out_(out) {}
  void put(NvmlField f, nvmlReturn_t status, uint64_t value) {
    out_.status[(size_t)f] = status;
    out_.value[(size_t)f] = status ? 0 : value;
  }
  // A function that fills one number.
  template <typename T>
  void number(NvmlField f, const char* name) {
    auto call = g_library.find<nvmlReturn_t(nvmlDevice_t, T*)>(name);
    T value{};
    nvmlReturn_t r = call ? call(device_, &value) : NVML_ERROR_NOT_SUPPORTED;
    put(f, r, (uint64_t)value);
  }
  // A function that fills one number and takes a selector.
  template <typename T = unsigned, typename S>
  void selected(NvmlField f, const char* name, S selector) {
    auto call = g_library.find<nvmlReturn_t(nvmlDevice_t, S, T*)>(name);
    T value{};
    nvmlReturn_t r = call ? call(device_, selector, &value) : NVML_ERROR_NOT_SUPPORTED;
    put(f, r, (uint64_t)value);
  }
  // A function that fills two.
  template <typename T = unsigned>
  void pair(NvmlField a, NvmlField b, const char* name) {
    auto call = g_library.find<nvmlReturn_t(nvmlDevice_t, T*, T*)>(name);
    T x{}, y{};
    nvmlReturn_t r = call ? call(device_, &x, &y) : NVML_ERROR_NOT_SUPPORTED;
    put(a, r, (uint64_t)x);
    put(b, r, (uint64_t)y);
  }
  void read();
  void text(char* to, size_t room, const char* name) {
    auto call = g_library.find<nvmlReturn_t(nvmlDevice_t, char*, unsigned)>(name);
    if (!call || call(device_, to, (unsigned)room)) *to = 0;
  }

 private:
  nvmlDevice_t device_;
  NvmlSample& out_;
};

void Reader::read() {
  nvmlUtilization_t u{};
  auto rates = NVML(nvmlDeviceGetUtilizationRates);
  nvmlReturn_t r = rates ? rates(device_, &u) : NVML_ERROR_NOT_SUPPORTED;
  put(NvmlField::gpu_utilization, r, u.gpu);
  put(NvmlField::memory_utilization, r, u.memory);
  selected(NvmlField::temperature, "nvmlDeviceGetTemperature", NVML_TEMPERATURE_GPU);
  selected(NvmlField::temperature_shutdown, "nvmlDeviceGetTemperatureThreshold",
           NVML_TEMPERATURE_THRESHOLD_SHUTDOWN);
  selected(NvmlField::temperature_slowdown, "nvmlDeviceGetTemperatureThreshold",
           NVML_TEMPERATURE_THRESHOLD_SLOWDOWN);
  number<unsigned>(NvmlField::power_usage, "nvmlDeviceGetPowerUsage");
  number<unsigned>(NvmlField::power_limit, "nvmlDeviceGetEnforcedPowerLimit");
  number<unsigned>(NvmlField::power_limit_default, "nvmlDeviceGetPowerManagementDefaultLimit");
  pair(NvmlField::power_limit_min, NvmlField::power_limit_max,
       "nvmlDeviceGetPowerManagementLimitConstraints");
  number<unsigned long long>(NvmlField::energy, "nvmlDeviceGetTotalEnergyConsumption");
  const NvmlField clocks[] = {NvmlField::clock_graphics, NvmlField::clock_sm,
                              NvmlField::clock_memory, NvmlField::clock_video};
  const NvmlField most[] = {NvmlField::max_clock_graphics, NvmlField::max_clock_sm,
                            NvmlField::max_clock_memory, NvmlField::max_clock_video};
  for (int i = 0; i < 4; ++i) {
    selected(clocks[i], "nvmlDeviceGetClockInfo", (nvmlClockType_t)i);
    selected(most[i], "nvmlDeviceGetMaxClockInfo", (nvmlClockType_t)i);
  }
  number<unsigned>(NvmlField::pcie_generation, "nvmlDeviceGetCurrPcieLinkGeneration");
  number<unsigned>(NvmlField::pcie_width, "nvmlDeviceGetCurrPcieLinkWidth");
  number<unsigned>(NvmlField::max_pcie_generation, "nvmlDeviceGetMaxPcieLinkGeneration");
  number<unsigned>(NvmlField::max_pcie_width, "nvmlDeviceGetMaxPcieLinkWidth");
  number<nvmlPstates_t>(NvmlField::performance_state, "nvmlDeviceGetPerformanceState");
  number<unsigned>(NvmlField::fan_speed, "nvmlDeviceGetFanSpeed");
  pair<nvmlEnableState_t>(NvmlField::ecc_current, NvmlField::ecc_pending, "nvmlDeviceGetEccMode");
  number<nvmlDeviceArchitecture_t>(NvmlField::architecture, "nvmlDeviceGetArchitecture");
  number<nvmlBrandType_t>(NvmlField::brand, "nvmlDeviceGetBrand");
  number<unsigned>(NvmlField::cores, "nvmlDeviceGetNumGpuCores");
  number<unsigned>(NvmlField::bus_width, "nvmlDeviceGetMemoryBusWidth");
  number<unsigned long long>(NvmlField::throttle_reasons, "nvmlDeviceGetCurrentClocksEventReasons");
  NvmlField ignored = NvmlField::decoder_utilization;
  pair(NvmlField::encoder_utilization, ignored, "nvmlDeviceGetEncoderUtilization");
  pair(NvmlField::decoder_utilization, ignored, "nvmlDeviceGetDecoderUtilization");
  auto errors = NVML(nvmlDeviceGetTotalEccErrors);
  unsigned long long n = 0;
  r = errors ? errors(device_, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC, &n)
             : NVML_ERROR_NOT_SUPPORTED;
  put(NvmlField::volatile_corrected, r, n);
  r = errors ? errors(device_, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, &n)
             : NVML_ERROR_NOT_SUPPORTED;
  put(NvmlField::volatile_uncorrected, r, n);
  text(out_.vbios, sizeof out_.vbios, "nvmlDeviceGetVbiosVersion");
  text(out_.serial, sizeof out_.serial, "nvmlDeviceGetSerial");
}

std::string uuid_text(const CUuuid& u) {
  char out[48];
  auto* b = (const unsigned char*)u.bytes;
  std::snprintf(out, sizeof out,
                "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
                b[14], b[15]);
  return out;
}
}  // namespace

void load_nvml(const std::string& driver) {
  size_t slash = driver.rfind('/');
  std::string path = slash == std::string::npos ? "libnvidia-ml.so.1"
                                                : driver.substr(0, slash + 1) + "libnvidia-ml.so.1";
  g_library.handle = dlopen(path.c_str(), RTLD_NOW);
  auto init = NVML(nvmlInit_v2);
  if (!init || init()) g_library.handle = nullptr;
}

// device -> sample, processes
void nvml_sample(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  uint32_t device = in.get<uint32_t>();
  if (!in.ok() || device >= s.devices.size()) return s.reply(reply, CUDA_ERROR_INVALID_DEVICE);
  NvmlSample out{};
  std::fill(std::begin(out.status), std::end(out.status), wire::kNvmlNotSupported);
  CUuuid uuid;
  nvmlDevice_t handle = nullptr;
  auto find = NVML(nvmlDeviceGetHandleByUUID);
  if (find && !s.cu.cuDeviceGetUuid(&uuid, s.devices[device].device) &&
      !find(uuid_text(uuid).c_str(), &handle))
    Reader(handle, out).read();
  auto version = NVML(nvmlSystemGetDriverVersion);
  if (!version || version(out.driver_version, sizeof out.driver_version))
    std::snprintf(out.driver_version, sizeof out.driver_version, "unknown");
  uint32_t partition = s.devices[device].partition;
  out.memory_total = s.ledger.limit(partition);
  out.memory_used = s.ledger.leased(partition);
  auto processes = s.ledger.processes(partition);
  out.processes = (uint32_t)std::min<size_t>(processes.size(), wire::kNvmlProcesses);
  std::string body;
  append(body, out);
  for (uint32_t i = 0; i < out.processes; ++i) append(body, processes[i]);
  s.reply(reply, CUDA_SUCCESS, body);
}

}  // namespace busbar::server
