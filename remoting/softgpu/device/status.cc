// softgpu-status [SAMPLES MILLISECONDS]: prints one line of JSON for each device and sample. The
// default is one sample.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "softgpu/device/engine.h"
#include "softgpu/device/identity.h"

namespace {
using namespace softgpu;
using Clock = std::chrono::steady_clock;

void print(int index, Engine& device) {
  std::printf("{\"uuid\": \"%s\", \"monotonic_nanoseconds\": %lld, \"memory_bytes\": %llu, ",
              uuid_text(index).c_str(), (long long)Clock::now().time_since_epoch().count(),
              (unsigned long long)device.total_bytes());
  std::printf("\"processes\": [");
  const char* comma = "";
  for (auto& p : device.processes()) {
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
}  // namespace

int main(int argc, char** argv) {
  int samples = argc > 1 ? std::atoi(argv[1]) : 1;
  std::chrono::milliseconds every(argc > 2 ? std::atoi(argv[2]) : 0);
  DeviceConfig config = config_from_environment();
  std::vector<Engine*> devices;
  for (int i = 0; i < config.count; ++i) {
    devices.push_back(Engine::open(i, config, false));
    if (devices.back()) continue;
    std::fprintf(stderr, "softgpu-status: device %d cannot be opened in %s\n", i,
                 state_directory().c_str());
    return 1;
  }
  Clock::time_point due = Clock::now();
  for (int n = 0; n < samples; ++n, due += every) {
    std::this_thread::sleep_until(due);
    for (int i = 0; i < config.count; ++i) print(i, *devices[(size_t)i]);
  }
}
