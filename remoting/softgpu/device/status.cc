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
    e->lock();
    e->reap();
    auto* d = e->shared();
    std::printf(
        "{\"uuid\": \"%s\", \"memory_bytes\": %llu, \"busy_nanoseconds\": %llu, \"processes\": [",
        uuid_text(i).c_str(), (unsigned long long)d->memory_bytes,
        (unsigned long long)d->busy_nanoseconds.load());
    const char* comma = "";
    for (auto& s : d->slots)
      if (s.pid) {
        std::printf(
            "%s{\"pid\": %d, \"memory_bytes\": %llu, \"busy_nanoseconds\": %llu, \"turns\": %llu}",
            comma, s.pid, (unsigned long long)s.memory_bytes,
            (unsigned long long)s.busy_nanoseconds.load(), (unsigned long long)s.turns.load());
        comma = ", ";
      }
    std::printf("]}\n");
    e->unlock();
  }
}
