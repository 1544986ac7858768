// Encoding of a record whose size depends on the program: names, lists of nodes, parameters.
//
// Thread safety: a GrowingEncoder belongs to one thread. It allocates when a record does not fit in
// its buffer on the stack. A record above kMaxRecordBytes is submitted in parts (client/link.cc).
#pragma once
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "wire/format.h"

namespace busbar::wire {

// As Encoder, but for at most kMaxPayloadBytes, which the caller ensures.
class GrowingEncoder {
 public:
  GrowingEncoder(uint16_t opcode, uint32_t context, uint32_t stream) {
    RecordHeader h{0, opcode, 0, context, stream};
    std::memcpy(bytes_, &h, sizeof h);
  }
  GrowingEncoder(Op op, uint32_t context, uint32_t stream = kNoStream)
      : GrowingEncoder((uint16_t)op, context, stream) {}
  GrowingEncoder(const GrowingEncoder&) = delete;

  template <typename T>
  GrowingEncoder& put(T v) {
    static_assert(std::is_trivially_copyable_v<T>);
    return raw(&v, sizeof v);
  }
  GrowingEncoder& raw(const void* p, uint64_t n) {
    if (n > capacity_ - at_) grow(n);
    if (n) std::memcpy(bytes_ + at_, p, n);
    at_ += n;
    return *this;
  }
  // Writes a 32-bit length and the characters without the terminating zero.
  GrowingEncoder& text(const char* s) {
    uint32_t n = (uint32_t)std::strlen(s);
    return put(n).raw(s, n);
  }
  // Returns the `n` bytes that were written last. Valid until the next write.
  const uint8_t* last(uint64_t n) const { return bytes_ + at_ - n; }

  // Pads the record to a multiple of 16 bytes and writes its length. Nothing may be added later.
  const uint8_t* finish() {
    uint32_t end = size();
    std::memset(bytes_ + at_, 0, end - at_);
    at_ = end;
    std::memcpy(bytes_, &end, sizeof end);
    return bytes_;
  }
  // Padded; equal before and after finish().
  uint32_t size() const { return (uint32_t)((at_ + kPadding - 1) & ~(kPadding - 1)); }

 private:
  static constexpr uint64_t kPadding = 16, kOnStack = 4096;
  // Makes room for `n` more bytes, whose number and sum the caller has bounded.
  void grow(uint64_t n) {
    capacity_ = std::max(2 * capacity_, at_ + n);
    std::vector<uint8_t> larger(capacity_ + kPadding);
    std::memcpy(larger.data(), bytes_, at_);
    allocated_ = std::move(larger);
    bytes_ = allocated_.data();
  }
  uint64_t at_ = sizeof(RecordHeader), capacity_ = kOnStack;
  std::vector<uint8_t> allocated_;
  alignas(kPadding) uint8_t on_stack_[kOnStack + kPadding];
  uint8_t* bytes_ = on_stack_;
};

}  // namespace busbar::wire
