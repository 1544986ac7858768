#include "null_driver/dirty.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace {
constexpr size_t kPage = 4096, kStride = 2 << 20, kWholeBytes = 1 << 20;

// Calls write(offset, bytes) for each dirty range until it returns false.
template <typename Write>
bool for_dirty_ranges(size_t bytes, Write write) {
  if (bytes <= kWholeBytes) return write((size_t)0, bytes);
  for (size_t at = 0; at < bytes; at += kStride)
    if (!write(at, std::min(kPage, bytes - at))) return false;
  return write(bytes - kPage, kPage);
}
}  // namespace

void make_dirty(void* memory, size_t bytes) {
  for_dirty_ranges(bytes, [&](size_t at, size_t n) {
    std::memset((char*)memory + at, kDirt, n);
    return true;
  });
}

bool make_file_dirty(int fd, size_t bytes) {
  static char dirt[kWholeBytes];
  std::memset(dirt, kDirt, sizeof dirt);
  return for_dirty_ranges(
      bytes, [&](size_t at, size_t n) { return pwrite(fd, dirt, n, (off_t)at) == (ssize_t)n; });
}

void write_zeros(void* memory, size_t bytes) {
  uintptr_t at = (uintptr_t)memory, end = at + bytes;
  uintptr_t first = (at + kPage - 1) & ~(kPage - 1), last = end & ~(kPage - 1);
  // MADV_REMOVE is for files, MADV_DONTNEED for private memory.
  if (bytes < kWholeBytes || (madvise((void*)first, last - first, MADV_REMOVE) &&
                              madvise((void*)first, last - first, MADV_DONTNEED))) {
    std::memset(memory, 0, bytes);
    return;
  }
  std::memset(memory, 0, first - at);
  std::memset((void*)last, 0, end - last);
}
