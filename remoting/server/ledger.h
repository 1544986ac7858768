// What an allocation may use on this node and what its sessions hold of it: one file, mapped by the
// launcher and each session server.
#pragma once
#include <pthread.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "wire/format.h"
#include "wire/nvml_sample.h"

namespace busbar::server {

constexpr uint32_t kLedgerSessions = 256;
constexpr size_t kRefusedBytes = 256;

struct LedgerFile {
  uint32_t magic, version;
  pthread_mutex_t mutex;  // robust: a killed session leaves its slot to the next who locks
  uint32_t partitions;
  uint64_t limit_bytes[wire::kMaxDevices];
  struct Slot {
    pid_t pid;
    uint32_t client_pid;  // of the program, on its own machine
    uint64_t start_time;
    uint64_t leased_bytes[wire::kMaxDevices];
  } slots[kLedgerSessions];
  struct Refused {
    pid_t pid;
    uint64_t start_time;
    char names[kRefusedBytes];
  } refused[kLedgerSessions];  // of the slot's session; stays when it ends
};

uint64_t process_start_time(pid_t pid);  // 0: no such process

class Ledger {
 public:
  // Launcher: makes or updates the file. Null when it cannot be.
  static Ledger* create(const std::string& path, const uint64_t* limits, uint32_t partitions);
  // Session server: takes a slot.
  static Ledger* join(const std::string& path, uint32_t client_pid);
  ~Ledger();

  bool reserve(uint32_t partition, uint64_t bytes);  // false: the allocation's memory is used up
  void give_back(uint32_t partition, uint64_t bytes);
  uint64_t limit(uint32_t partition) const { return file_->limit_bytes[partition]; }
  uint64_t leased(uint32_t partition);  // by all live sessions
  bool holds(pid_t pid);                // a session server of this allocation
  std::vector<wire::NvmlProcess> processes(
      uint32_t partition);  // programs of this allocation, and what they hold
  // Calls that were refused, for the people who ask why a program fails: names with spaces between,
  // no more than fit.
  void note_refused(const std::string& name);  // session server
  std::string refused(
      pid_t pid,
      uint64_t start_time);  // launcher: of a session server, even one that ended a moment ago
  uint64_t leased_here(uint32_t partition) const {
    return file_->slots[slot_].leased_bytes[partition];
  }

 private:
  static LedgerFile* map(const std::string& path, bool make);
  void lock();
  void unlock() { pthread_mutex_unlock(&file_->mutex); }
  void reap();
  uint64_t sum(uint32_t partition) const;
  LedgerFile* file_ = nullptr;
  int slot_ = -1;
};

}  // namespace busbar::server
