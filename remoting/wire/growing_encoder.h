// Encoding of a record whose size depends on the program: names, lists of nodes, parameters. A
// record above kMaxRecordBytes is submitted in parts (client/link.cc).
//
// Thread safety: as encode.h; it allocates when a record does not fit in its buffer on the stack.
#pragma once
#include <algorithm>
#include <vector>

#include "wire/encode.h"

namespace busbar::wire {

// For records of at most kMaxPayloadBytes, which the caller ensures.
class GrowingBuffer {
 public:
  GrowingBuffer() = default;
  GrowingBuffer(const GrowingBuffer&) = delete;
  uint8_t* bytes() { return bytes_; }
  // Makes room for `n` bytes behind `at`, whose number and sum the caller has bounded.
  void make_room(uint64_t at, uint64_t n) {
    if (n > capacity_ - at) grow(at, n);
  }

 private:
  static constexpr uint64_t kOnStack = 4096;
  void grow(uint64_t at, uint64_t n) {
    // NOLINTNEXTLINE(custom-unchecked-product): at most twice kMaxPayloadBytes
    capacity_ = (std::max(2 * capacity_, at + n) + kRecordAlign - 1) & ~(kRecordAlign - 1ull);
    std::vector<uint8_t> larger(capacity_ + kRecordAlign);
    std::memcpy(larger.data(), bytes_, at);
    allocated_ = std::move(larger);
    bytes_ = allocated_.data();
  }
  uint64_t capacity_ = kOnStack;
  std::vector<uint8_t> allocated_;
  alignas(kRecordAlign) uint8_t on_stack_[kOnStack + kRecordAlign];
  uint8_t* bytes_ = on_stack_;
};

using GrowingEncoder = BasicEncoder<GrowingBuffer>;

}  // namespace busbar::wire
