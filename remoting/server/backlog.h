// Bounds the unfinished work of one stream while its session has the GPU for itself: a neighbour
// that comes waits for it, and the session pays for it. ADR 83.
//
// The bound is a number of records, which follows from how long the newest ones took. The records
// of a stream run one after the other, so kernels of several streams still run side by side.
//
// Thread safety: the executor calls has_room(), needs_fence() and add_fence(). One thread at a time
// calls complete().
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>

namespace busbar::server {

class Backlog {
 public:
  static constexpr int64_t kMostNs = 100'000'000;
  static constexpr uint32_t kLeast = 2;  // records: the GPU goes on with the second one
  // Before anything is known, and times kGrowth with each completion: the first kernels of a
  // program are often the shortest ones.
  static constexpr uint32_t kFirst = 4, kGrowth = 4;

  // `unfenced`: records with work behind the newest fence of the stream.
  // Without a fence, no completion would make room.
  bool has_room(uint32_t unfenced) const {
    uint32_t fenced = fenced_.load(std::memory_order_relaxed);
    return !fenced || unfenced + fenced < most_.load(std::memory_order_relaxed);
  }
  // With two fences in what may be unfinished, the GPU goes on while more is submitted.
  bool needs_fence(uint32_t unfenced) const {
    return unfenced >= most_.load(std::memory_order_relaxed) / 2;
  }
  // A fence behind so many records is submitted.
  void add_fence(uint32_t records) { fenced_.fetch_add(records, std::memory_order_relaxed); }
  // It has completed at `now`. `since`: when the first of the records was submitted.
  void complete(uint32_t records, int64_t since, int64_t now) {
    fenced_.fetch_sub(records, std::memory_order_relaxed);
    auto took = (double)(now - std::max(since, completed_at_));
    completed_at_ = now;
    add(records, took);
    // Of fences that are seen together only the first one seems to take time.
    double each = std::max({took / records, took_ / records_, 1.0});
    most_.store((uint32_t)std::clamp<double>((double)kMostNs / each, kLeast,
                                             kGrowth * (double)most_.load()),
                std::memory_order_relaxed);
  }

 private:
  std::atomic<uint32_t> most_{kFirst}, fenced_{0};  // records
  void add(uint32_t records, double took) {
    took_ += took;
    records_ += records;
    double kept = std::min(1.0, (double)kMostNs / std::max(took_, 1.0));
    took_ *= kept;
    records_ *= kept;
  }
  double took_ = 0, records_ = 0;  // of about the last kMostNs of work
  int64_t completed_at_ = 0;
};

}  // namespace busbar::server
