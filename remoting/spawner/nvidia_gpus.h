// The files of NVIDIA's GPUs that a cage shows. The driver lists the GPUs in
// /proc/driver/nvidia/gpus, in a folder for each PCI device.
//
// Thread safety: any thread.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar::spawner {

using GpuUuid = std::array<uint8_t, 16>;

struct GpuInformation {
  GpuUuid uuid;
  unsigned minor;  // N of /dev/nvidiaN
};

// Reads a file `information` of the driver. Nothing if UUID or minor number is missing, occurs
// twice or has another form than the driver writes.
std::optional<GpuInformation> parse_gpu_information(std::string_view text);

struct GpuFiles {
  std::vector<std::string> devices;     // device files
  std::vector<std::string> attributes;  // of the PCI devices: files to read, links and folders
  std::vector<GpuUuid> unknown;         // GPUs without a certain minor number
};

// Returns the files of these GPUs only. `root` is the folder of proc, sys and dev.
GpuFiles files_of_gpus(const std::vector<GpuUuid>& gpus, const std::string& root = "");

std::string gpu_name(const GpuUuid& uuid);  // as NVIDIA's tools write it: GPU-…

}  // namespace busbar::spawner
