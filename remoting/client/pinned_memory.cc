#include "client/pinned_memory.h"

#include <sys/mman.h>

#include "checked_size.h"
#include "mutex.h"

namespace busbar::client {

namespace {
constexpr int kAttempts = 64;

struct Cursor {
  Mutex mutex;
  uint64_t next GUARDED_BY(mutex) = wire::kFirstPinnedAddress;
};
Cursor& cursor() {
  static auto* c = new Cursor;
  return *c;
}

void* map(uint64_t at, uint64_t bytes, int flags) {
  void* p =
      mmap((void*)at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}
}  // namespace

// Each allocation has granules of its own, because the node maps whole ones.
void* allocate_pinned(uint64_t bytes) {
  CheckedSize rounded = CheckedSize(bytes).rounded_up(wire::kGranularity);
  if (!rounded.valid()) return nullptr;
  MutexLock lock(cursor().mutex);
  uint64_t& next = cursor().next;
  for (int i = 0;
       i < kAttempts && rounded.within(wire::kLastPinnedAddress - wire::kFirstPinnedAddress); ++i) {
    if (!(rounded + next).within(wire::kLastPinnedAddress)) next = wire::kFirstPinnedAddress;
    uint64_t at = next;
    next += rounded.value();
    void* p = map(at, bytes, MAP_FIXED_NOREPLACE);
    if ((uint64_t)p == at) return p;
    if (p) munmap(p, bytes);  // a kernel without MAP_FIXED_NOREPLACE
  }
  return map(0, bytes, 0);
}

void free_pinned(void* p, uint64_t bytes) {
  munmap(p, bytes);
}

}  // namespace busbar::client
