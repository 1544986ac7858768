// Fields into a buffer of fixed size. Values only; the caller knows that they fit.
#pragma once
#include <cstring>
#include <type_traits>

#include "wire/format.h"

namespace busbar::wire {

// A record under construction on the stack of the submitting thread.
template <uint32_t Room = 512>
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
  Encoder& text(const char* s) {
    uint32_t n = (uint32_t)std::strlen(s);
    put(n);
    return raw(s, n);
  }
  uint32_t room() const { return Room - at_; }

  // Pads to 16 bytes and writes the length. The record is complete after this.
  const uint8_t* finish() {
    uint32_t end = (at_ + 15) & ~15u;
    std::memset(bytes_ + at_, 0, end - at_);
    at_ = end;
    std::memcpy(bytes_, &end, sizeof end);
    return bytes_;
  }
  uint32_t size() const { return (at_ + 15) & ~15u; }  // padded: the same before and after finish()

 private:
  uint32_t at_ = sizeof(RecordHeader);
  alignas(16) uint8_t bytes_[Room + 16];
};

}  // namespace busbar::wire
