// Whether this process can access a range of addresses.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "checked_size.h"

namespace busbar {

// Return whether every page of the range is mapped. Reads no memory.
inline bool is_mapped(const void* p, uint64_t bytes) {
  constexpr uint64_t kPage = 4096, kPagesAtOnce = 1024;
  if (!(CheckedSize((uint64_t)p) + bytes).within(1ull << 47)) return false;
  uint64_t end = (uint64_t)p + bytes;
  unsigned char resident[kPagesAtOnce];  // not used: the call fails if a page is not mapped
  for (uint64_t at = (uint64_t)p & ~(kPage - 1); at < end; at += kPagesAtOnce * kPage)
    if (mincore((void*)at, std::min(end - at, kPagesAtOnce * kPage), resident) && errno == ENOMEM)
      return false;
  return true;
}

}  // namespace busbar
