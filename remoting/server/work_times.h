// Learns how long the work of a record takes, by its key: see work_key.h. What a key is expected to
// take is the longest time that was measured, halved for each half second that the GPU has worked
// for the session since.
//
// Thread safety: expected() is for any thread. One thread at a time calls the other members.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

namespace busbar::server {

class WorkTimes {
 public:
  static constexpr uint32_t kUnknown = 0;
  static constexpr uint32_t kLongest = 250'000'000;  // ns; longer work counts as that long

  // Returns nanoseconds, or kUnknown.
  uint32_t expected(uint64_t key) const {
    const Entry& e = entry(key);
    return e.key.load(std::memory_order_relaxed) == key ? e.ns.load(std::memory_order_relaxed)
                                                        : kUnknown;
  }
  // A record with this key took so long. `worked_ns`: how long the GPU has worked so far.
  void learn(uint64_t key, int64_t ns, int64_t worked_ns);
  void forget(uint64_t key);
  void forget_all();

 private:
  struct Entry {
    std::atomic<uint64_t> key{0};
    std::atomic<uint32_t> ns{kUnknown};
    int64_t learnt_at = 0;  // after so much work
  };
  static constexpr uint64_t kEntries = 1024;  // a later key takes the place of an earlier one
  const Entry& entry(uint64_t key) const { return entries_[key % kEntries]; }
  std::array<Entry, kEntries> entries_;
};

}  // namespace busbar::server
