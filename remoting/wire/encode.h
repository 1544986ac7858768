// Encoding of one record in a buffer of fixed size on the stack.
//
// Thread safety: an Encoder belongs to one thread. No member blocks or allocates.
#pragma once
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
  // Writes a 32-bit length and the characters without the terminating zero.
  Encoder& text(const char* s) {
    uint32_t n = (uint32_t)std::strlen(s);
    put(n);
    return raw(s, n);
  }
  uint32_t room() const { return Capacity - at_; }

  // Pads the record to a multiple of 16 bytes and writes its length. Nothing may be added later.
  const uint8_t* finish() {
    uint32_t end = (at_ + 15) & ~15u;
    std::memset(bytes_ + at_, 0, end - at_);
    at_ = end;
    std::memcpy(bytes_, &end, sizeof end);
    return bytes_;
  }
  uint32_t size() const { return (at_ + 15) & ~15u; }  // padded; equal before and after finish()

 private:
  uint32_t at_ = sizeof(RecordHeader);
  alignas(16) uint8_t bytes_[Capacity + 16];
};

}  // namespace busbar::wire
