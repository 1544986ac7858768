#include "client/arena_addresses.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "wire/format.h"

namespace busbar::client {

static constexpr uint64_t kFirstAddress = 0x210000000000ull;  // 33 TiB

std::vector<uint64_t> reserve_arena_addresses() {
  std::vector<uint64_t> addresses;
#ifdef BUSBAR_SMALL_WINDOW  // ThreadSanitizer uses these addresses
  return addresses;
#endif
  const char* enabled = std::getenv("BUSBAR_ARENA");
  if (enabled && !std::strcmp(enabled, "0")) return addresses;
  for (uint32_t slot = 0; slot < wire::kArenaSlots; ++slot) {
    uint64_t at = kFirstAddress + slot * wire::kArenaSlotBytes;
    void* p = mmap((void*)at, wire::kArenaSlotBytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (p == MAP_FAILED) continue;
    if ((uint64_t)p == at)
      addresses.push_back(at);
    else
      munmap(p, wire::kArenaSlotBytes);
  }
  return addresses;
}

void release_arena_addresses(const std::vector<uint64_t>& addresses) {
  for (uint64_t at : addresses) munmap((void*)at, wire::kArenaSlotBytes);
}

void trim_arena_addresses(uint64_t at, uint64_t bytes) {
  if (bytes < wire::kArenaSlotBytes) munmap((void*)(at + bytes), wire::kArenaSlotBytes - bytes);
}

}  // namespace busbar::client
