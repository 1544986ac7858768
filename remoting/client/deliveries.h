// Transfers from the node that are on their way to a region of host memory.
//
// Thread safety: the caller serializes all calls.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

namespace busbar::client {

class Deliveries {
 public:
  // The bytes [offset, offset + bytes) of the region are written by a transfer.
  void add(uint64_t transfer, uint64_t offset, uint64_t bytes) {
    ranges_.push_back({transfer, offset, bytes});
  }
  // Forgets the transfers that are complete.
  void remove_if(const std::function<bool(uint64_t transfer)>& complete);
  // Calls f(offset, n) for each part of [0, bytes) that no transfer writes.
  void for_each_gap(uint64_t bytes, const std::function<void(uint64_t, uint64_t)>& f) const;
  bool empty() const { return ranges_.empty(); }

 private:
  struct Range {
    uint64_t transfer, offset, bytes;
  };
  std::vector<Range> ranges_;
};

}  // namespace busbar::client
