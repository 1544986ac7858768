// What NVML says of a GPU on the node, as one answer: numbers by field, each with NVML's own
// status.
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
constexpr uint32_t kNvmlNotSupported = 3;

struct NvmlProcess {
  uint32_t pid, reserved;
  uint64_t bytes;
};  // of the program, on its own machine

struct NvmlSample {
  uint32_t status[kNvmlFields];  // nvmlReturn_t
  uint64_t value[kNvmlFields];
  uint64_t memory_total, memory_used;  // of the partition
  char driver_version[80], vbios[32], serial[32];
  uint32_t processes, reserved;  // NvmlProcess[] follows
};

}  // namespace busbar::wire
