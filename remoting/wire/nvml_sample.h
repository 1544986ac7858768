// NVML values of one GPU, sent as one reply. Each field has its own NVML status.
#pragma once
#include <cstdint>

namespace busbar::wire {

enum class NvmlField : uint32_t {
  gpu_utilization,
  memory_utilization,
  temperature,
  power_usage,
  power_limit,
  power_limit_default,
  power_limit_min,
  power_limit_max,
  energy,
  clock_graphics,
  clock_sm,
  clock_memory,
  clock_video,
  max_clock_graphics,
  max_clock_sm,
  max_clock_memory,
  max_clock_video,
  pcie_generation,
  pcie_width,
  max_pcie_generation,
  max_pcie_width,
  performance_state,
  fan_speed,
  ecc_current,
  ecc_pending,
  architecture,
  brand,
  cores,
  bus_width,
  temperature_shutdown,
  temperature_slowdown,
  throttle_reasons,
  encoder_utilization,
  decoder_utilization,
  volatile_corrected,
  volatile_uncorrected,
  count
};
constexpr uint32_t kNvmlFields = (uint32_t)NvmlField::count;
constexpr uint32_t kNvmlProcesses = 256;
constexpr uint32_t kNvmlNotSupported = 3;  // NVML_ERROR_NOT_SUPPORTED

struct NvmlProcess {
  uint32_t pid;  // on the client's machine
  uint32_t reserved;
  uint64_t bytes;  // device memory
};

struct NvmlSample {
  uint32_t status[kNvmlFields];        // nvmlReturn_t
  uint64_t value[kNvmlFields];         // in NVML's units; valid if the status is 0
  uint64_t memory_total, memory_used;  // bytes, of the partition
  char driver_version[80], driver_branch[80], vbios[32], serial[32];
  uint32_t processes;  // number of NvmlProcess entries that follow, at most kNvmlProcesses
  uint32_t reserved;
};

}  // namespace busbar::wire
