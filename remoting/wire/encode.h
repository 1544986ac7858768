// Encoding of one record.
//
// Thread safety: an encoder belongs to one thread. No member of an Encoder blocks or allocates.
#pragma once
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "wire/format.h"

namespace busbar::wire {

constexpr uint32_t kRecordAlign = 16;  // the bytes of a record are a multiple of this

// A record under construction. `Buffer` has its bytes, a multiple of kRecordAlign, and as many as
// that more, so that a second finish() pads nothing beyond them.
template <typename Buffer>
class BasicEncoder {
 public:
  BasicEncoder(uint16_t opcode, uint32_t context, uint32_t stream) {
    RecordHeader h{0, opcode, 0, context, stream};
    std::memcpy(buffer_.bytes(), &h, sizeof h);
  }
  BasicEncoder(Op op, uint32_t context, uint32_t stream = kNoStream)
      : BasicEncoder((uint16_t)op, context, stream) {}

  template <typename T>
  BasicEncoder& put(T v) {
    static_assert(std::is_trivially_copyable_v<T>);
    return raw(&v, sizeof v);
  }
  BasicEncoder& raw(const void* p, uint64_t n) {
    buffer_.make_room(at_, n);
    if (n) std::memcpy(buffer_.bytes() + at_, p, n);
    at_ += n;
    return *this;
  }
  // The same as raw(). Four and eight bytes, the usual sizes of parameters, need no call.
  BasicEncoder& parameter(const void* p, uint32_t n) {
    return n == 8 ? raw(p, 8) : n == 4 ? raw(p, 4) : raw(p, n);
  }
  // Writes a 32-bit length and the characters without the terminating zero.
  BasicEncoder& text(const char* s) {
    uint32_t n = (uint32_t)std::strlen(s);
    return put(n).raw(s, n);
  }
  // Sets flags of the header.
  BasicEncoder& flags(uint16_t bits) {
    std::memcpy(buffer_.bytes() + offsetof(RecordHeader, flags), &bits, sizeof bits);
    return *this;
  }
  // Returns the `n` bytes that were written last. Valid until the next write.
  const uint8_t* last(uint64_t n) { return buffer_.bytes() + at_ - n; }

  // Pads the record and writes its length. Nothing may be added later.
  const uint8_t* finish() {
    uint32_t end = size();
    std::memset(buffer_.bytes() + at_, 0, kRecordAlign);  // more: a constant needs no call
    at_ = end;
    std::memcpy(buffer_.bytes(), &end, sizeof end);
    return buffer_.bytes();
  }
  // Padded; equal before and after finish().
  uint32_t size() const { return (uint32_t)(at_ + kRecordAlign - 1) & ~(kRecordAlign - 1); }

 private:
  uint64_t at_ = sizeof(RecordHeader);
  Buffer buffer_;
};

// On the stack. Writes are not bounds-checked: the caller ensures that the header and all fields
// fit in `Capacity` bytes.
template <uint32_t Capacity>
class FixedBuffer {
 public:
  uint8_t* bytes() { return bytes_; }
  void make_room(uint64_t, uint64_t) {}

 private:
  alignas(kRecordAlign) uint8_t bytes_[(Capacity + 2 * kRecordAlign - 1) & ~(kRecordAlign - 1)];
};

template <uint32_t Capacity = 512>
using Encoder = BasicEncoder<FixedBuffer<Capacity>>;

}  // namespace busbar::wire
