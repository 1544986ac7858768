// A software GPU as this process and others on the machine use it.
//
// Thread safety: any thread, except acquire and release, which are for one thread at a time, and
// contended, which may be called while no thread is in acquire. Only acquire blocks for long.
#pragma once
#include <sys/types.h>

#include <mutex>
#include <vector>

#include "softgpu/device/device_config.h"
#include "softgpu/device/own_page.h"
#include "softgpu/device/turns.h"

namespace softgpu {

constexpr uint64_t kSliceNanoseconds = 2'000'000;

// The use of a device as its process states it. All values but the file are unverified.
struct ProcessUse {
  ino_t file;  // identifies the process
  pid_t pid;   // of its PID namespace
  uint64_t memory_bytes, busy_nanoseconds, turns;
  uint64_t executed_blocks, executed_nanoseconds, copied_bytes, copy_nanoseconds;
};

class Engine {
 public:
  // Open a device. `takes_part`: this process uses the device and has a page for that. Return null
  // if the folder of the devices cannot be used.
  static Engine* open(int index, const DeviceConfig& config, bool takes_part);

  // Charge memory to this process. Return false if the device does not have as much free memory.
  // For a session the launcher limits the memory of all, so that only its own counts here.
  bool charge(uint64_t bytes);
  void refund(uint64_t bytes);
  uint64_t used_bytes();  // of all live processes; at most total_bytes()
  uint64_t total_bytes() const { return config_.memory_bytes; }
  const DeviceConfig& config() const { return config_; }
  std::vector<ProcessUse> processes();  // that are alive

  void acquire() { turns_.acquire(); }  // blocks until the turn of this process
  void release(uint64_t busy_nanoseconds) { turns_.release(busy_nanoseconds); }
  bool contended() const { return turns_.contended(); }

  // Count completed work. The time is of softgpu::thread_time(). Any thread.
  void count_blocks(uint64_t blocks, uint64_t nanoseconds);
  void count_copy(uint64_t bytes, uint64_t nanoseconds);

 private:
  Engine(int index, const DeviceConfig& config, const OwnPage& own);
  const int index_;
  const DeviceConfig config_;
  const OwnPage own_;
  DeviceUse unused_{};  // in place of a page
  DeviceUse& use_;
  PeerPages pages_of_turns_;
  Turns turns_;
  std::mutex mutex_;  // guards pages_
  PeerPages pages_;
};

}  // namespace softgpu
