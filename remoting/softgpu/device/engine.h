// The machine-wide side of a software GPU: one file per device, mapped by every process that uses
// it.
#pragma once
#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace softgpu {

constexpr uint32_t kSlots = 256;  // processes on one device at a time
constexpr uint64_t kSliceNanoseconds = 2'000'000;
constexpr int kMaxDevices = 16;

struct Slot {  // one process on one device; guarded by SharedDevice::mutex unless atomic
  pid_t pid;
  uint64_t start_time;  // of the process, so that a reused pid is not mistaken for it
  uint64_t memory_bytes;
  std::atomic<uint64_t> busy_nanoseconds;
  std::atomic<uint64_t> turns;    // times it was given the engine
  std::atomic<uint32_t> granted;  // futex word: 1 when the engine is its own
};

struct SharedDevice {
  uint32_t magic, version;
  pthread_mutex_t mutex;  // robust and shared
  uint64_t memory_bytes;
  uint32_t multiprocessors, compute_major, compute_minor;
  int32_t holder;  // slot that has the engine, or -1
  uint32_t queue[kSlots], queue_head, queue_length;
  std::atomic<uint64_t> busy_nanoseconds;
  Slot slots[kSlots];
};

struct DeviceConfig {
  int count = 1;
  uint64_t memory_bytes = 8ull << 30;
  uint32_t multiprocessors = 16, compute_major = 12, compute_minor = 0;
};

// Environment BUSBAR_SOFTGPU_{DEVICES,MEMORY_BYTES,MULTIPROCESSORS,COMPUTE_CAPABILITY,DIR}; the
// defaults above where unset.
DeviceConfig config_from_environment();
std::string state_directory();

uint64_t process_start_time(pid_t pid);  // 0 when there is no such process

// This process's place on one device. Blocking only in acquire().
class Engine {
 public:
  // Null when the file cannot be made or belongs to somebody else.
  static Engine* open(int index, const DeviceConfig& config, bool take_slot);

  bool charge(uint64_t bytes);  // false: not that much memory is free on the device
  void refund(uint64_t bytes);
  uint64_t used_bytes();  // by every live process
  uint64_t total_bytes() const { return shared_->memory_bytes; }

  void acquire();  // waits its turn, in order of arrival
  void release(uint64_t busy_nanoseconds);
  bool contended() const { return __atomic_load_n(&shared_->queue_length, __ATOMIC_RELAXED) != 0; }

  SharedDevice* shared() { return shared_; }
  void lock();  // for readers such as NVML
  void unlock();
  void reap();  // frees what dead processes held; call locked

 private:
  void leave_queue(int slot);
  void hand_on();
  SharedDevice* shared_ = nullptr;
  int slot_ = -1;
};

}  // namespace softgpu
