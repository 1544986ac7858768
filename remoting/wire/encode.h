// Encoding of one record in a buffer of fixed size on the stack.
//
// Thread safety: an Encoder belongs to one thread. No member blocks or allocates.
#pragma once
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "wire/format.h"

namespace busbar::wire {

// A record under construction. Writes are not bounds-checked: the caller ensures that the header
// and all fields fit in `Capacity` bytes.
template <uint32_t Capacity = 512>
class Encoder {
 public:
  Encoder(uint16_t opcode, uint32_t context, uint32_t stream) {
    RecordHeader h{0, opcode, 0, context, stream};
    std::memcpy(bytes_, &h, sizeof h);
  }
  Encoder(Op op, uint32_t context, uint32_t stream = kNoStream)
      : Encoder((uint16_t)op, context, stream) {}

  template <typename T>
  Encoder& put(T v) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(bytes_ + at_, &v, sizeof v);
    at_ += sizeof v;
    return *this;
  }
  Encoder& raw(const void* p, uint32_t n) {
    if (n) std::memcpy(bytes_ + at_, p, n);
    at_ += n;
    return *this;
  }
  // The same as raw(). Four and eight bytes, the usual sizes of parameters, need no call.
  Encoder& parameter(const void* p, uint32_t n) {
    if (n == 8)
      std::memcpy(bytes_ + at_, p, 8);
    else if (n == 4)
      std::memcpy(bytes_ + at_, p, 4);
    else
      return raw(p, n);
    at_ += n;
    return *this;
  }
  // Writes a 32-bit length and the characters without the terminating zero.
  Encoder& text(const char* s) {
    uint32_t n = (uint32_t)std::strlen(s);
    put(n);
    return raw(s, n);
  }
  // Sets flags of the header.
  Encoder& flags(uint16_t bits) {
    std::memcpy(bytes_ + offsetof(RecordHeader, flags), &bits, sizeof bits);
    return *this;
  }
  uint32_t room() const { return Capacity - at_; }
  // Returns the `n` bytes that were written last. Valid until the next write.
  const uint8_t* last(uint32_t n) const { return bytes_ + at_ - n; }

  // Pads the record to a multiple of 16 bytes and writes its length. Nothing may be added later.
  const uint8_t* finish() {
    uint32_t end = size();
    std::memset(bytes_ + at_, 0, kPadding);  // more than is missing: a constant needs no call
    at_ = end;
    std::memcpy(bytes_, &end, sizeof end);
    return bytes_;
  }
  // Padded; equal before and after finish().
  uint32_t size() const { return (at_ + kPadding - 1) & ~(kPadding - 1); }

 private:
  static constexpr uint32_t kPadding = 16;
  uint32_t at_ = sizeof(RecordHeader);
  alignas(kPadding) uint8_t bytes_[Capacity + kPadding];
};

}  // namespace busbar::wire
