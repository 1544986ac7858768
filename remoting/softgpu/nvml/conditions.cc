#include "softgpu/nvml/conditions.h"

#include <sys/stat.h>

#include <fstream>

#include "softgpu/device/engine.h"

namespace softgpu {

Conditions conditions_of(int device) {
  Conditions c;
  std::string path = state_directory() + "/gpu" + std::to_string(device) + ".conditions";
  struct stat st;
  if (stat(path.c_str(), &st)) return c;
  c.changed = (uint64_t)st.st_mtim.tv_sec * 1000000000ull + (uint64_t)st.st_mtim.tv_nsec;
  std::ifstream file(path);
  std::string name;
  uint64_t value;
  while (c.values.size() < 64 && file >> name >> value) c.values[name] = value;
  return c;
}

}  // namespace softgpu
