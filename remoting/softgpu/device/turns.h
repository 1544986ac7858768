// The order in which processes use the engine of a device: by the time at which they began to wait.
// Each process publishes that time on its own page and reads those of the others, so there is no
// lock and no common memory that anyone else can write.
//
// A process that does not end its turn delays another one by at most kPatience, and is then ignored
// for kShortestIgnored, doubled each time up to kLongestIgnored. No wait is longer than
// kLongestWait. Turns are for fairness only: two grids that run at the same time compute correctly.
//
// Thread safety: acquire and release for one thread at a time; contended from any thread, while no
// other one is in acquire.
#pragma once
#include <cstdint>

#include "softgpu/device/peer_pages.h"

namespace softgpu {

// All in nanoseconds.
constexpr uint64_t kPatience = 100'000'000, kLongestWait = 1'000'000'000;
constexpr uint64_t kShortestIgnored = 1'000'000'000, kLongestIgnored = 8'000'000'000;

class Turns {
 public:
  Turns(DeviceUse& own, int device, PeerPages& pages) : own_(own), device_(device), pages_(pages) {}

  void acquire();  // blocks until the turn of this process
  void release(uint64_t busy_nanoseconds);
  bool contended() const;  // true if another process waits

 private:
  uint64_t begin_of(const Peer& peer) const;
  Peer* first_before(uint64_t begin, uint64_t at) const;
  const Peer* last_before(uint64_t begin, uint64_t at) const;
  void wait_for_others(uint64_t begin);
  void wait_for_end(const Peer& peer, uint64_t begin) const;
  void refresh(uint64_t at);
  DeviceUse& own_;
  const int device_;
  PeerPages& pages_;
  uint64_t next_refresh_ = 0;  // nanoseconds
};

}  // namespace softgpu
