// Bounded reading of untrusted bytes: past the end every read gives zero and `ok()` turns false for
// good.
#pragma once
#include <cstring>
#include <string_view>
#include <vector>

#include "wire/format.h"

namespace busbar::wire {

class Decoder {
 public:
  Decoder(const void* p, uint64_t n) : p_((const uint8_t*)p), left_(n) {}

  template <typename T>
  T get() {
    T v{};
    if (left_ < sizeof v) {
      fail();
      return v;
    }
    std::memcpy(&v, p_, sizeof v);
    skip(sizeof v);
    return v;
  }
  const uint8_t* raw(uint64_t n) {
#ifndef BUSBAR_PLANTED_UNCHECKED  // a test builds without this check, and the fuzzer must notice
    if (left_ < n) {
      fail();
      return nullptr;
    }
#endif
    const uint8_t* at = p_;
    skip(n);
    return at;
  }
  // `n` elements of plain data. False when there are not so many bytes.
  template <typename T>
  bool elements(std::vector<T>& out, uint64_t n) {
    if (n > left_ / sizeof(T)) {
      fail();
      return false;
    }
    out.resize(n);
    if (n) std::memcpy((void*)out.data(), p_, n * sizeof(T));
    skip(n * sizeof(T));
    return true;
  }
  std::string_view text(uint32_t most = kMaxNameBytes) {
    uint32_t n = get<uint32_t>();
    if (n > most) {
      fail();
      return {};
    }
    auto* at = (const char*)raw(n);
    return at ? std::string_view(at, n) : std::string_view();
  }
  bool ok() const { return ok_; }
  uint64_t left() const { return left_; }

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

// The record at the head of `n` bytes. 1: complete; 0: more bytes are needed; -1: malformed.
inline int next_record(const uint8_t* p, uint64_t n, RecordHeader& h) {
  if (n < sizeof h) return 0;
  std::memcpy(&h, p, sizeof h);
  if (h.bytes < sizeof h || h.bytes > kMaxRecordBytes || h.bytes % 16) return -1;
  return n >= h.bytes ? 1 : 0;
}

}  // namespace busbar::wire
