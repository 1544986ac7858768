// The account of the device memory that an allocation uses on this node: one file, mapped by the
// launcher and by each session server of the allocation.
//
// Thread safety: any thread of any process. A robust mutex in the file guards all of it: if its
// holder is killed, the next process continues, because totals are summed from the slots each time.
// limit() and charged_here() read without the mutex.
#pragma once
#include <pthread.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "wire/format.h"
#include "wire/nvml_sample.h"

namespace busbar::server {

constexpr uint32_t kLedgerSessions = 256;
constexpr size_t kRefusedBytes = 256;

struct LedgerFile {
  uint32_t magic, version;
  pthread_mutex_t mutex;
  uint32_t partitions;
  uint64_t limit_bytes[wire::kMaxDevices];
  struct Slot {
    pid_t pid;            // of the session server; 0: free
    uint32_t client_pid;  // of the program, on its own machine
    uint64_t start_time;  // of the session server: a pid alone may belong to a later process
    uint64_t charged_bytes[wire::kMaxDevices];
  } slots[kLedgerSessions];
  // Names of the unsupported calls of a slot's session. They stay when the session ends, until
  // another session takes the slot.
  struct RefusedCalls {
    pid_t pid;
    uint64_t start_time;
    char names[kRefusedBytes];  // separated by spaces
  } refused[kLedgerSessions];
};

// Returns the start time of a process in clock ticks since boot; 0 if there is none, or if it is a
// zombie.
uint64_t process_start_time(pid_t pid);

class Ledger {
 public:
  // Launcher: creates the file or updates its limits. Null on failure.
  static std::unique_ptr<Ledger> create(const std::string& path, const uint64_t* limits,
                                        uint32_t partitions);
  // Session server: opens the file and takes a slot for this process. Null without file or slot.
  static std::unique_ptr<Ledger> join(const std::string& path, uint32_t client_pid);
  ~Ledger();
  Ledger(const Ledger&) = delete;

  // ---- of a session server ----
  // Charges memory. False, and nothing is charged, if the limit would be exceeded.
  bool reserve(uint32_t partition, uint64_t bytes);
  void release(uint32_t partition, uint64_t bytes);
  // Records the name of an unsupported call, once, while there is room.
  void add_refused_call(const std::string& name);
  uint64_t charged_here(uint32_t partition) const {
    return file_->slots[slot_].charged_bytes[partition];
  }

  // ---- of any process ----
  uint64_t limit(uint32_t partition) const { return file_->limit_bytes[partition]; }
  uint64_t charged(uint32_t partition);  // by all live sessions
  bool has_session(pid_t pid);           // true if it is a session server of this allocation
  std::vector<wire::NvmlProcess> processes(uint32_t partition);  // programs and their charges
  // Returns the unsupported calls of a session server, even shortly after its end.
  std::string refused_calls(pid_t pid, uint64_t start_time);

 private:
  explicit Ledger(LedgerFile* file) : file_(file) {}
  static LedgerFile* map(const std::string& path, bool create);
  void lock();
  void unlock() { pthread_mutex_unlock(&file_->mutex); }
  void free_dead_slots();
  uint64_t sum(uint32_t partition) const;
  LedgerFile* file_;
  int slot_ = -1;
};

}  // namespace busbar::server
