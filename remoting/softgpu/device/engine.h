// The part of a software GPU that all processes share: one file for each device, mapped by every
// process that uses it. It grants the engine in turns and accounts for memory.
//
// Thread safety: SharedDevice::mutex guards all members that are not atomic. All functions of
// Engine take it, except reap, whose caller holds it. Only acquire blocks for long.
#pragma once
#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace softgpu {

constexpr uint32_t kSlots = 256;  // processes on one device at the same time
constexpr uint64_t kSliceNanoseconds = 2'000'000;
constexpr int kMaxDevices = 16;

// One process on one device.
struct Slot {
  pid_t pid;  // 0: the slot is free; of the PID namespace of the process
  uint64_t memory_bytes;
  std::atomic<uint64_t> busy_nanoseconds;
  std::atomic<uint64_t> turns;    // times that it held the engine
  std::atomic<uint32_t> granted;  // futex word: 1 while it holds the engine
};

struct SharedDevice {
  uint32_t magic, version;
  pthread_mutex_t mutex;  // robust, shared between processes
  uint64_t memory_bytes;
  uint32_t multiprocessors, compute_major, compute_minor;
  int32_t holder;                                    // slot that holds the engine; -1: none
  uint32_t queue[kSlots], queue_head, queue_length;  // slots that wait for the engine, in order
  std::atomic<uint64_t> busy_nanoseconds;
  Slot slots[kSlots];
};

struct DeviceConfig {
  int count = 1;
  uint64_t memory_bytes = 8ull << 30;
  uint32_t multiprocessors = 16, compute_major = 12, compute_minor = 0;
};

// Read BUSBAR_SOFTGPU_{DEVICES,MEMORY_BYTES,MULTIPROCESSORS,COMPUTE_CAPABILITY} with the defaults
// above.
DeviceConfig config_from_environment();
// Return the folder of the device files: BUSBAR_SOFTGPU_DIR, or one of this user in /dev/shm.
std::string state_directory();

// The access of this process to one device.
class Engine {
 public:
  // Open a device. Return null if its file cannot be created or belongs to another user, or if all
  // slots are taken.
  static Engine* open(int index, const DeviceConfig& config, bool take_slot);

  // Charge memory to this process. Return false if the device does not have as much free memory.
  bool charge(uint64_t bytes);
  void refund(uint64_t bytes);
  uint64_t used_bytes();  // of all live processes
  uint64_t total_bytes() const { return shared_->memory_bytes; }

  void acquire();  // blocks until the engine is granted, in order of arrival
  void release(uint64_t busy_nanoseconds);
  bool contended() const { return __atomic_load_n(&shared_->queue_length, __ATOMIC_RELAXED) != 0; }

  SharedDevice* shared() { return shared_; }
  void lock();  // for readers of shared() such as NVML
  void unlock();
  // Free the slots of processes that have ended. The caller holds the lock.
  void reap();

 private:
  bool take_slot();  // false: all slots are taken
  void leave_queue(int slot);
  void grant_next();
  bool is_alive(int slot) const;
  SharedDevice* shared_ = nullptr;
  int file_ = -1;  // each process locks the byte of its slot, until it ends
  int slot_ = -1;
};

}  // namespace softgpu
