// Learns how long the work of a record takes, by its key: see work_key.h.
//
// Two times are known of each key. The average weighs a measurement less with the time that the GPU
// has worked for the session since. The longest is the longest one that was measured twice in a
// row: kernels may take different times one after the other, while a delay of the thread that
// measures comes alone.
//
// Thread safety: expected() is for any thread. One thread at a time calls the other members.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

namespace busbar::server {

// Nanoseconds.
struct WorkTime {
  int64_t average = 0, longest = 0;
  bool is_known() const { return average; }
  WorkTime& operator+=(const WorkTime& b) {
    average += b.average;
    longest += b.longest;
    return *this;
  }
  WorkTime& operator-=(const WorkTime& b) {
    average -= b.average;
    longest -= b.longest;
    return *this;
  }
  friend WorkTime operator+(WorkTime a, const WorkTime& b) { return a += b; }
};

class WorkTimes {
 public:
  static constexpr int64_t kLongest = 250'000'000;  // longer work counts as that long

  // Not known: zeros.
  WorkTime expected(uint64_t key) const;
  // So many records with this key took so long together. `worked_ns`: how long the GPU has worked
  // for the session so far.
  void learn(uint64_t key, uint32_t records, int64_t took_ns, int64_t worked_ns);

 private:
  struct Entry {
    std::atomic<uint64_t> key{0};
    std::atomic<int64_t> average{0}, longest{0};
    int64_t newest = 0;            // time of a record of the newest measurement; 0: none
    double took = 0, records = 0;  // that make the average
    int64_t learnt_at = 0;         // after so much work
  };
  // A later key takes the place of the oldest of the few that share its entries.
  static constexpr uint64_t kSets = 1024, kWays = 4;
  static_assert((kSets & (kSets - 1)) == 0);
  const Entry* find(uint64_t key) const;
  Entry& find_or_add(uint64_t key);
  std::array<std::array<Entry, kWays>, kSets> entries_;
};

}  // namespace busbar::server
