#include "softgpu/device/device_config.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "softgpu/device/use_page.h"

namespace softgpu {

namespace {
constexpr uint32_t kMagic = 0x55504753, kVersion = 5;

// The file of a device. Processes in cages cannot write it.
struct Stored {
  uint32_t magic, version;
  uint64_t memory_bytes, context_bytes;
  uint32_t multiprocessors, compute_major, compute_minor, unused;
};

uint64_t number(const char* name, uint64_t fallback, uint64_t lowest, uint64_t highest) {
  const char* text = std::getenv(name);
  if (!text || !*text) return fallback;
  uint64_t v = std::strtoull(text, nullptr, 0);
  return std::clamp(v, lowest, highest);
}

bool read_stored(const std::string& path, Stored& stored) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  bool whole = pread(fd, &stored, sizeof stored, 0) == (ssize_t)sizeof stored;
  close(fd);
  return whole && stored.magic == kMagic && stored.version == kVersion;
}

// Write a file under another name first: others never see a part of it.
void store(const std::string& path, const DeviceConfig& c) {
  Stored stored{kMagic,
                kVersion,
                c.memory_bytes,
                c.context_bytes,
                c.multiprocessors,
                c.compute_major,
                c.compute_minor,
                0};
  std::string fresh = path + ".XXXXXX";
  int fd = mkostemp(fresh.data(), O_CLOEXEC);
  if (fd < 0) return;
  bool whole = write(fd, &stored, sizeof stored) == (ssize_t)sizeof stored;
  whole = fchmod(fd, 0644) == 0 && whole;
  close(fd);
  if (!whole || rename(fresh.c_str(), path.c_str())) unlink(fresh.c_str());
}
}  // namespace

DeviceConfig config_from_environment() {
  DeviceConfig c;
  c.count = (int)number("BUSBAR_SOFTGPU_DEVICES", 1, 1, kMaxDevices);
  c.memory_bytes = number("BUSBAR_SOFTGPU_MEMORY_BYTES", c.memory_bytes, 64ull << 20, 1ull << 40) &
                   ~((2ull << 20) - 1);
  c.context_bytes = number("BUSBAR_SOFTGPU_CONTEXT_BYTES", 0, 0, c.memory_bytes) & ~4095ull;
  c.multiprocessors = (uint32_t)number("BUSBAR_SOFTGPU_MULTIPROCESSORS", c.multiprocessors, 1, 256);
  if (const char* cc = std::getenv("BUSBAR_SOFTGPU_COMPUTE_CAPABILITY"))
    std::sscanf(cc, "%u.%u", &c.compute_major, &c.compute_minor);
  return c;
}

std::string state_directory() {
  if (const char* dir = std::getenv("BUSBAR_SOFTGPU_DIR"); dir && *dir) return dir;
  return "/dev/shm/busbar-softgpu-" + std::to_string(getuid());
}

bool read_config(int index, DeviceConfig& config) {
  std::string dir = state_directory(), path = dir + "/gpu" + std::to_string(index);
  ::mkdir(dir.c_str(), 0700);
  struct stat st;
  bool from_spawner = std::getenv(kUseVariable);  // which has the folder, and another user
  if (stat(dir.c_str(), &st) || (st.st_uid != geteuid() && !from_spawner)) return false;
  Stored stored;
  if (!read_stored(path, stored)) {
    store(path, config);
    if (!read_stored(path, stored)) return true;
  }
  config.memory_bytes = stored.memory_bytes;
  config.context_bytes = stored.context_bytes;
  config.multiprocessors = stored.multiprocessors;
  config.compute_major = stored.compute_major;
  config.compute_minor = stored.compute_minor;
  return true;
}

}  // namespace softgpu
