#include "client/address_reservation.h"

#include <sys/mman.h>

#include <map>

#include "checked_size.h"
#include "client/link.h"
#include "mutex.h"

namespace busbar::client {

namespace {
constexpr uint64_t kFirstAddress = wire::kFirstRangeAddress,
                   kLastAddress = wire::kFirstPinnedAddress;
constexpr int kAttempts = 4;

struct Reservations {
  Mutex mutex;
  uint64_t cursor GUARDED_BY(mutex) = kFirstAddress;
  std::map<uint64_t, AddressReservation> by_base GUARDED_BY(mutex);
};
Reservations& reservations() {
  static auto* r = new Reservations;
  return *r;
}

uint64_t round_up(uint64_t v) {
  return CheckedSize(v).rounded_up(wire::kGranularity).value();
}

// Reserves the range in this process if it is unused.
bool reserve_at(uint64_t at, uint64_t bytes) {
  void* p = mmap((void*)at, bytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (p != MAP_FAILED && (uint64_t)p != at) {  // a kernel without MAP_FIXED_NOREPLACE
    munmap(p, bytes);
    return false;
  }
  return p != MAP_FAILED;
}

// Reserves an unused range in this process. Returns 0 if there is none.
uint64_t reserve_locally(uint64_t bytes, uint64_t hint) REQUIRES(reservations().mutex) {
  if (hint && hint % wire::kGranularity == 0 && hint >= kFirstAddress &&
      (CheckedSize(hint) + bytes).within(kLastAddress) && reserve_at(hint, bytes))
    return hint;
  uint64_t& cursor = reservations().cursor;
  for (; (CheckedSize(cursor) + bytes).within(kLastAddress); cursor += round_up(bytes))
    if (reserve_at(cursor, bytes)) {
      cursor += bytes;
      return cursor - bytes;
    }
  return 0;
}
}  // namespace

CUresult call_range(Link* link, wire::Op op, uint32_t context, uint64_t a, uint64_t b, uint64_t c,
                    uint64_t d) {
  uint64_t id = link->next_id();
  wire::Encoder<> e(op, context);
  e.put(id).put(a).put(b).put(c).put(d);
  return (CUresult)link->call(id, e.finish(), e.size()).status;
}

CUresult reserve_addresses(Link* link, uint32_t context, uint64_t bytes, uint64_t hint,
                           uint64_t& out) {
  MutexLock lock(reservations().mutex);
  for (int i = 0; i < kAttempts; ++i) {
    uint64_t at = reserve_locally(bytes, i ? 0 : hint);
    if (!at) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = call_range(link, wire::Op::reserve_addresses, context, at, bytes);
    if (r == CUDA_SUCCESS) {
      reservations().by_base[at] = {at, bytes, link};
      out = at;
      return r;
    }
    munmap((void*)at, bytes);
    if (r != CUDA_ERROR_OUT_OF_MEMORY) return r;  // otherwise the range is used on the node
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

void align_reservations(uint64_t align) {
  MutexLock lock(reservations().mutex);
  uint64_t& cursor = reservations().cursor;
  cursor = CheckedSize(cursor).rounded_up(align).value();
}

CUresult release_addresses(uint64_t base, uint64_t bytes) {
  MutexLock lock(reservations().mutex);
  auto it = reservations().by_base.find(base);
  if (it == reservations().by_base.end() || it->second.bytes != bytes)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult r = call_range(it->second.link, wire::Op::free_addresses, 0, base, bytes);
  munmap((void*)base, bytes);
  reservations().by_base.erase(it);
  return r;
}

AddressReservation find_reservation(uint64_t address) {
  MutexLock lock(reservations().mutex);
  auto it = reservations().by_base.upper_bound(address);
  return it == reservations().by_base.begin() ? AddressReservation{} : std::prev(it)->second;
}

}  // namespace busbar::client
