// softgpu-status: prints one line of JSON for each device.
#include <cstdio>

#include "softgpu/device/engine.h"
#include "softgpu/device/identity.h"

int main() {
  using namespace softgpu;
  DeviceConfig config = config_from_environment();
  for (int i = 0; i < config.count; ++i) {
    Engine* e = Engine::open(i, config, false);
    if (!e) {
      std::fprintf(stderr, "softgpu-status: device %d cannot be opened in %s\n", i,
                   state_directory().c_str());
      return 1;
    }
    std::printf("{\"uuid\": \"%s\", \"memory_bytes\": %llu, \"processes\": [", uuid_text(i).c_str(),
                (unsigned long long)e->total_bytes());
    const char* comma = "";
    for (auto& p : e->processes()) {
      std::printf(
          "%s{\"pid\": %d, \"file\": %llu, \"memory_bytes\": %llu, \"busy_nanoseconds\": %llu, "
          "\"turns\": %llu, \"executed_blocks\": %llu, \"executed_nanoseconds\": %llu, "
          "\"copied_bytes\": %llu, \"copy_nanoseconds\": %llu}",
          comma, p.pid, (unsigned long long)p.file, (unsigned long long)p.memory_bytes,
          (unsigned long long)p.busy_nanoseconds, (unsigned long long)p.turns,
          (unsigned long long)p.executed_blocks, (unsigned long long)p.executed_nanoseconds,
          (unsigned long long)p.copied_bytes, (unsigned long long)p.copy_nanoseconds);
      comma = ", ";
    }
    std::printf("]}\n");
  }
}
