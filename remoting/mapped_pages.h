// Whether this process can access a range of addresses.
#pragma once
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>

#include "checked_size.h"

namespace busbar {

// Return whether every page of the range is mapped. Reads no memory.
inline bool is_mapped(const void* p, uint64_t bytes) {
  constexpr uint64_t page = 4096;
  if (!(CheckedSize((uint64_t)p) + bytes).within(1ull << 47)) return false;
  uint64_t begin = (uint64_t)p & ~(page - 1);
  return msync((void*)begin, (uint64_t)p + bytes - begin, MS_ASYNC) == 0 || errno != ENOMEM;
}

}  // namespace busbar
