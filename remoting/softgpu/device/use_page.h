// Pages in which processes publish their use of the software GPUs. Each page is a file of its own
// in the folder of the devices. Only its process writes it; all others map it read-only. ADR 61.
//
// A page is written by its process and is not trusted: a reader bounds every value, waits for none
// without a limit and follows none as an index or length.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

namespace softgpu {

constexpr int kMaxDevices = 16;
constexpr uint64_t kUsePageBytes = 4096;

// The use of one device.
struct alignas(64) DeviceUse {
  std::atomic<uint64_t> waiting_since;  // monotonic, in nanoseconds, until the end of the turn; 0:
                                        // the process neither waits for the engine nor has it
  std::atomic<uint64_t> memory_bytes;
  std::atomic<uint64_t> busy_nanoseconds;  // in turns that have ended
  std::atomic<uint64_t> turns;
  std::atomic<uint32_t> ended_turns;  // futex word
  // Completed work of the engines, for tests, benchmarks and the launcher. Times are processor
  // times of threads: they leave out the time in which a thread was descheduled.
  std::atomic<uint64_t> executed_blocks, executed_nanoseconds;
  std::atomic<uint64_t> copied_bytes, copy_nanoseconds;
};

struct UsePage {
  int32_t pid;  // of the PID namespace of the process
  DeviceUse devices[kMaxDevices];
};
static_assert(sizeof(UsePage) <= kUsePageBytes);
constexpr char kUsePrefix[] = "use2-";  // of file names; another layout gets another number

// A file for the page of a process. All users may read it, because the processes of sessions have
// users of their own. A process that has the file mapped, and so locked, is alive.
struct UseFile {
  int fd = -1;       // for reading and writing, with a shared lock; -1: it could not be created
  std::string path;  // in the folder of the devices
};
UseFile create_use_file(const std::string& folder);

// The variable of a process that gets its file from the spawner, as this descriptor.
constexpr char kUseVariable[] = "BUSBAR_SOFTGPU_USE_FD";

}  // namespace softgpu
