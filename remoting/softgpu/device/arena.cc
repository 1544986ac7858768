#include "softgpu/device/arena.h"

#include <sys/mman.h>

#include <atomic>

#include "checked_size.h"

namespace softgpu {

namespace {
std::atomic<uint64_t> g_private{kPrivateBase},
    g_reserve{kReserveBase};  // next free address; addresses are never reused

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

// Take addresses below `end` and a gap behind them, so that an overrun faults. Return 0 if there
// are none left.
uint64_t take(std::atomic<uint64_t>& next, uint64_t end, uint64_t bytes) {
  CheckedSize room = CheckedSize(bytes).rounded_up(kGranularity) + kGranularity;
  uint64_t at = next.load();
  do {
    if (!(room + at).within(end)) return 0;
  } while (!next.compare_exchange_weak(at, (room + at).value()));
  return at;
}

constexpr uint64_t kWindowEnd = SOFTGPU_WINDOW_BASE + SOFTGPU_WINDOW_BYTES;
}  // namespace

uint64_t reserve_addresses(uint64_t bytes, uint64_t hint) {
  bool inside = hint >= SOFTGPU_WINDOW_BASE && (CheckedSize(hint) + bytes).within(kWindowEnd);
  if (hint && inside && map_at(hint, bytes, PROT_NONE)) return hint;
  for (int tries = 0; tries < 16; ++tries) {
    uint64_t at = take(g_reserve, kWindowEnd, bytes);
    if (!at || map_at(at, bytes, PROT_NONE)) return at;
  }
  return 0;
}

void release_addresses(uint64_t at, uint64_t bytes) {
  munmap((void*)at, bytes);
}

uint64_t map_private(uint64_t bytes) {
  for (int tries = 0; tries < 16; ++tries) {
    uint64_t at = take(g_private, kReserveBase, bytes);
    if (!at || map_at(at, bytes, PROT_READ | PROT_WRITE)) return at;
  }
  return 0;
}

void unmap_private(uint64_t at, uint64_t bytes) {
  munmap((void*)at, bytes);
}

}  // namespace softgpu
