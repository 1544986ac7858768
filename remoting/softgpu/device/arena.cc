#include "softgpu/device/arena.h"

#include <sys/mman.h>

#include <atomic>

namespace softgpu {

namespace {
std::atomic<uint64_t> g_private{kPrivateBase},
    g_reserve{kReserveBase};  // addresses are plentiful: never reused within a process

bool map_at(uint64_t at, uint64_t bytes, int protection) {
  void* p = mmap((void*)at, bytes, protection,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (p == MAP_FAILED) return false;
  if ((uint64_t)p != at) {
    munmap(p, bytes);
    return false;
  }
  return true;
}

uint64_t round_up(uint64_t v, uint64_t a) {
  return (v + a - 1) & ~(a - 1);
}
}  // namespace

uint64_t reserve_addresses(uint64_t bytes, uint64_t wish) {
  bool inside = wish >= SOFTGPU_WINDOW_BASE &&
                wish + bytes <= SOFTGPU_WINDOW_BASE + SOFTGPU_WINDOW_BYTES && wish + bytes >= wish;
  if (wish && inside && map_at(wish, bytes, PROT_NONE)) return wish;
  for (int tries = 0; tries < 16; ++tries) {
    uint64_t at = g_reserve.fetch_add(round_up(bytes, kGranularity) + kGranularity);
    if (at + bytes > SOFTGPU_WINDOW_BASE + SOFTGPU_WINDOW_BYTES) return 0;
    if (map_at(at, bytes, PROT_NONE)) return at;
  }
  return 0;
}

void release_addresses(uint64_t at, uint64_t bytes) {
  munmap((void*)at, bytes);
}

uint64_t map_private(uint64_t bytes) {
  for (int tries = 0; tries < 16; ++tries) {
    uint64_t at = g_private.fetch_add(round_up(bytes, kGranularity) +
                                      kGranularity);  // a gap: an overrun faults
    if (map_at(at, bytes, PROT_READ | PROT_WRITE)) return at;
  }
  return 0;
}

void unmap_private(uint64_t at, uint64_t bytes) {
  munmap((void*)at, bytes);
}

}  // namespace softgpu
