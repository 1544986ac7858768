// Samples of a partition: clocks, temperature and power are those of the GPU, memory and processes
// those of the allocation.
#include "server/nvml.h"

#include <dlfcn.h>
#include <nvml.h>

#include <algorithm>
#include <cstring>

#include "server/handlers.h"
#include "server/reply.h"
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

// A function of the library, or null.
#define NVML(name) g_library.find<decltype(name)>(#name)

// Fills a sample from one device. Each value has the status of its own call.
class SampleReader {
 public:
  SampleReader(nvmlDevice_t device, NvmlSample& out) : device_(device), out_(out) {}
  void read();

 private:
  void read_utilization();
  void read_power_and_temperature();
  void read_clocks();
  void read_properties();
  void read_errors();
  void put(NvmlField f, nvmlReturn_t status, uint64_t value) {
    out_.status[(size_t)f] = status;
    out_.value[(size_t)f] = status ? 0 : value;
  }
  // Calls a function with one result.
  template <typename T>
  void number(NvmlField f, const char* name) {
    auto call = g_library.find<nvmlReturn_t(nvmlDevice_t, T*)>(name);
    T value{};
    nvmlReturn_t r = call ? call(device_, &value) : NVML_ERROR_NOT_SUPPORTED;
    put(f, r, (uint64_t)value);
  }
  // The same for a function with a selector.
  template <typename T = unsigned, typename S>
  void selected(NvmlField f, const char* name, S selector) {
    auto call = g_library.find<nvmlReturn_t(nvmlDevice_t, S, T*)>(name);
    T value{};
    nvmlReturn_t r = call ? call(device_, selector, &value) : NVML_ERROR_NOT_SUPPORTED;
    put(f, r, (uint64_t)value);
  }
  // Calls a function with two results.
  template <typename T = unsigned>
  void pair(NvmlField a, NvmlField b, const char* name) {
    auto call = g_library.find<nvmlReturn_t(nvmlDevice_t, T*, T*)>(name);
    T x{}, y{};
    nvmlReturn_t r = call ? call(device_, &x, &y) : NVML_ERROR_NOT_SUPPORTED;
    put(a, r, (uint64_t)x);
    put(b, r, (uint64_t)y);
  }
  void text(char* to, size_t room, const char* name) {
    auto call = g_library.find<nvmlReturn_t(nvmlDevice_t, char*, unsigned)>(name);
    if (!call || call(device_, to, (unsigned)room)) *to = 0;
  }

  nvmlDevice_t device_;
  NvmlSample& out_;
};

void SampleReader::read() {
  read_utilization();
  read_power_and_temperature();
  read_clocks();
  read_properties();
  read_errors();
}

void SampleReader::read_utilization() {
  nvmlUtilization_t u{};
  auto rates = NVML(nvmlDeviceGetUtilizationRates);
  nvmlReturn_t r = rates ? rates(device_, &u) : NVML_ERROR_NOT_SUPPORTED;
  put(NvmlField::gpu_utilization, r, u.gpu);
  put(NvmlField::memory_utilization, r, u.memory);
  // The second result is the sampling period, which the second call overwrites.
  NvmlField ignored = NvmlField::decoder_utilization;
  pair(NvmlField::encoder_utilization, ignored, "nvmlDeviceGetEncoderUtilization");
  pair(NvmlField::decoder_utilization, ignored, "nvmlDeviceGetDecoderUtilization");
}

void SampleReader::read_power_and_temperature() {
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
  number<unsigned>(NvmlField::fan_speed, "nvmlDeviceGetFanSpeed");
}

void SampleReader::read_clocks() {
  const NvmlField now[] = {NvmlField::clock_graphics, NvmlField::clock_sm, NvmlField::clock_memory,
                           NvmlField::clock_video};
  const NvmlField most[] = {NvmlField::max_clock_graphics, NvmlField::max_clock_sm,
                            NvmlField::max_clock_memory, NvmlField::max_clock_video};
  for (int type = 0; type < 4; ++type) {
    selected(now[type], "nvmlDeviceGetClockInfo", (nvmlClockType_t)type);
    selected(most[type], "nvmlDeviceGetMaxClockInfo", (nvmlClockType_t)type);
  }
  number<nvmlPstates_t>(NvmlField::performance_state, "nvmlDeviceGetPerformanceState");
  number<unsigned long long>(NvmlField::throttle_reasons, "nvmlDeviceGetCurrentClocksEventReasons");
}

void SampleReader::read_properties() {
  number<unsigned>(NvmlField::pcie_generation, "nvmlDeviceGetCurrPcieLinkGeneration");
  number<unsigned>(NvmlField::pcie_width, "nvmlDeviceGetCurrPcieLinkWidth");
  number<unsigned>(NvmlField::max_pcie_generation, "nvmlDeviceGetMaxPcieLinkGeneration");
  number<unsigned>(NvmlField::max_pcie_width, "nvmlDeviceGetMaxPcieLinkWidth");
  number<nvmlDeviceArchitecture_t>(NvmlField::architecture, "nvmlDeviceGetArchitecture");
  number<nvmlBrandType_t>(NvmlField::brand, "nvmlDeviceGetBrand");
  number<unsigned>(NvmlField::cores, "nvmlDeviceGetNumGpuCores");
  number<unsigned>(NvmlField::bus_width, "nvmlDeviceGetMemoryBusWidth");
  text(out_.vbios, sizeof out_.vbios, "nvmlDeviceGetVbiosVersion");
  text(out_.serial, sizeof out_.serial, "nvmlDeviceGetSerial");
}

void SampleReader::read_errors() {
  pair<nvmlEnableState_t>(NvmlField::ecc_current, NvmlField::ecc_pending, "nvmlDeviceGetEccMode");
  auto errors = NVML(nvmlDeviceGetTotalEccErrors);
  auto count = [&](NvmlField f, nvmlMemoryErrorType_t type) {
    unsigned long long n = 0;
    nvmlReturn_t r =
        errors ? errors(device_, type, NVML_VOLATILE_ECC, &n) : NVML_ERROR_NOT_SUPPORTED;
    put(f, r, n);
  };
  count(NvmlField::volatile_corrected, NVML_MEMORY_ERROR_TYPE_CORRECTED);
  count(NvmlField::volatile_uncorrected, NVML_MEMORY_ERROR_TYPE_UNCORRECTED);
}

// Texts of the driver; empty where it does not tell.
void read_driver(NvmlSample& out) {
  auto version = NVML(nvmlSystemGetDriverVersion);
  if (!version || version(out.driver_version, sizeof out.driver_version))
    std::snprintf(out.driver_version, sizeof out.driver_version, "unknown");
  auto branch = NVML(nvmlSystemGetDriverBranch);
  nvmlSystemDriverBranchInfo_t info{};
  info.version = nvmlSystemDriverBranchInfo_v1;
  if (branch && !branch(&info, sizeof out.driver_branch))
    std::snprintf(out.driver_branch, sizeof out.driver_branch, "%s", info.branch);
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

void read_device(Session& s, uint32_t device, NvmlSample& out) {
  CUuuid uuid;
  nvmlDevice_t handle = nullptr;
  auto find = NVML(nvmlDeviceGetHandleByUUID);
  if (find && !s.cu.cuDeviceGetUuid(&uuid, s.devices[device].device) &&
      !find(uuid_text(uuid).c_str(), &handle))
    SampleReader(handle, out).read();
  read_driver(out);
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
void handlers::nvml_sample(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  uint32_t device = in.get<uint32_t>();
  if (!in.ok() || device >= s.devices.size()) return s.reply(reply, CUDA_ERROR_INVALID_DEVICE);
  NvmlSample out{};
  std::fill(std::begin(out.status), std::end(out.status), wire::kNvmlNotSupported);
  read_device(s, device, out);
  uint32_t partition = s.devices[device].partition;
  out.memory_total = s.account.limit(partition);
  out.memory_used = s.account.charged(partition);
  auto processes = s.account.processes(partition);
  out.processes = (uint32_t)std::min<size_t>(processes.size(), wire::kNvmlProcesses);
  std::string body;
  append(body, out);
  for (uint32_t i = 0; i < out.processes; ++i) append(body, processes[i]);
  s.reply(reply, CUDA_SUCCESS, body);
}

}  // namespace busbar::server
