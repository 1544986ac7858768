// Limits of host memory, threads and processor time for cages, by control groups: version 2, else
// version 1. The system must let this process write in its own group.
//
// Thread safety: for one thread.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace busbar::spawner {

class ControlGroups {
 public:
  // `memory_bytes` is the limit of one cage, `all_memory_bytes` that of all cages together.
  ControlGroups(uint64_t memory_bytes, uint64_t all_memory_bytes);
  ~ControlGroups() { remove_parents(); }
  ControlGroups(const ControlGroups&) = delete;

  // True if all three limits are in force for cages.
  bool available() const { return !parents_.empty(); }
  // Creates the groups of a cage. Returns descriptors: a process that writes "0" to all of them
  // enters the cage's groups. Empty on failure.
  std::vector<int> create(const std::string& name) const;
  // Returns the limit of host memory of all cages together that is in force, in bytes; 0: none.
  uint64_t common_memory_limit() const;
  // Removes the groups of cages that have no process, also those of an earlier spawner.
  void remove_empty() const;

 private:
  bool use_version_2();
  bool use_version_1();
  bool can_create_cages() const;
  bool create_parents() const;
  void remove_parents() const;
  // Groups in which those of cages are made; one for each hierarchy.
  std::vector<std::string> parents_;
  const std::string prefix_;  // of the groups of this object
  const uint64_t memory_bytes_, all_memory_bytes_;
};

}  // namespace busbar::spawner
