// Sizes of the software GPUs and the folder of their files.
#pragma once
#include <cstdint>
#include <string>

namespace softgpu {

struct DeviceConfig {
  int count = 1;
  uint64_t memory_bytes = 8ull << 30;
  uint64_t context_bytes = 0;  // device memory that a context takes
  uint32_t multiprocessors = 16, compute_major = 12, compute_minor = 0;
};

// Read BUSBAR_SOFTGPU_{DEVICES,MEMORY_BYTES,CONTEXT_BYTES,MULTIPROCESSORS,COMPUTE_CAPABILITY} with
// the defaults above.
DeviceConfig config_from_environment();
// Return the folder of the device files: BUSBAR_SOFTGPU_DIR, or one of this user in /dev/shm.
std::string state_directory();

// Get the sizes of a device: those with which its file was created. If there is no file, create it
// with the sizes of `config`; a process in a cage cannot, and uses `config`. False if the folder
// belongs to another user.
bool read_config(int index, DeviceConfig& config);

}  // namespace softgpu
