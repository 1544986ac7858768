// Bounds-checked reading of untrusted bytes.
//
// Thread safety: a Decoder belongs to one thread. No member blocks or allocates, except elements().
#pragma once
#include <cstring>
#include <string_view>
#include <type_traits>
#include <vector>

#include "wire/format.h"

namespace busbar::wire {

// An enumeration of C, which may have no other values than the bits of its names can form.
template <typename T>
concept OpenEnumeration = std::is_enum_v<T> && !requires { T{0}; };

// Reads fields from the front of a buffer, which must outlive the decoder. A read past the end
// returns zero and makes ok() false permanently.
class Decoder {
 public:
  Decoder(const void* p, uint64_t n) : p_((const uint8_t*)p), left_(n) {}

  template <typename T>
  T get() {
    static_assert(!OpenEnumeration<T>, "see take() in wire/enumeration.h");
    T v{};
    if (left_ < sizeof v) {
      fail();
      return v;
    }
    std::memcpy(&v, p_, sizeof v);
    skip(sizeof v);
    return v;
  }
  // Returns the address of the next `n` bytes, or null when fewer are left.
  const uint8_t* raw(uint64_t n) {
    if (left_ < n) {
      fail();
      return nullptr;
    }
    const uint8_t* at = p_;
    skip(n);
    return at;
  }
  // Reads `n` elements of plain data into `out`. Returns false when fewer are left.
  template <typename T>
  bool elements(std::vector<T>& out, uint64_t n) {
    if (n > left_ / sizeof(T)) {
      fail();
      return false;
    }
    out.resize(n);
    if (n) std::memcpy((void*)out.data(), p_, out.size() * sizeof(T));
    skip(out.size() * sizeof(T));
    return true;
  }
  // Reads a 32-bit length and that many characters, at most `max_bytes`.
  std::string_view text(uint32_t max_bytes = kMaxNameBytes) {
    uint32_t n = get<uint32_t>();
    if (n > max_bytes) {
      fail();
      return {};
    }
    auto* at = (const char*)raw(n);
    return at ? std::string_view(at, n) : std::string_view();
  }
  // As after a read past the end: a field has a value that is not permitted.
  void refuse() { fail(); }
  bool ok() const { return ok_; }
  uint64_t left() const { return left_; }  // bytes

 private:
  void skip(uint64_t n) {
    p_ += n;
    left_ -= n;
  }
  void fail() {
    ok_ = false;
    left_ = 0;
  }
  const uint8_t* p_;
  uint64_t left_;
  bool ok_ = true;
};

// Reads the header of the first record in `n` bytes.
// Returns 1 if the record is complete, 0 if more bytes are needed, -1 if it is malformed.
inline int next_record(const uint8_t* p, uint64_t n, RecordHeader& h) {
  if (n < sizeof h) return 0;
  std::memcpy(&h, p, sizeof h);
  if (h.bytes < sizeof h || h.bytes > kMaxRecordBytes || h.bytes % 16) return -1;
  return n >= h.bytes ? 1 : 0;
}

}  // namespace busbar::wire
