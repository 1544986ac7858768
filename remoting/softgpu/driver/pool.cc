#include "softgpu/driver/pool.h"

#include <map>

#include "softgpu/driver/handles.h"

namespace softgpu {

namespace {
// The pool that cuDeviceSetMemPool chose, by device.
std::map<int, Pool*>& chosen() {
  static auto* m = new std::map<int, Pool*>;
  return *m;
}
// The pool of each allocation, by base address.
std::map<uint64_t, Pool*>& owners() {
  static auto* m = new std::map<uint64_t, Pool*>;
  return *m;
}
std::mutex& pools_mutex() {
  static auto* m = new std::mutex;
  return *m;
}

}  // namespace

Pool* default_pool(int ordinal) {
  static auto* pools = new std::map<int, Pool*>;
  static auto* mutex = new std::mutex;
  std::lock_guard lock(*mutex);
  Pool*& p = (*pools)[ordinal];
  if (!p) {
    p = new Pool;
    p->ordinal = ordinal;
    add_handle(p);
  }
  return p;
}

Pool* current_pool(int ordinal) {
  std::lock_guard lock(pools_mutex());
  auto it = chosen().find(ordinal);
  return it != chosen().end() && is_live(it->second) ? it->second : default_pool(ordinal);
}

void set_current_pool(int ordinal, Pool* p) {
  std::lock_guard lock(pools_mutex());
  chosen()[ordinal] = p;
}

void add_to_pool(Pool* p, uint64_t base, uint64_t bytes) {
  {
    std::lock_guard lock(pools_mutex());
    owners()[base] = p;
  }
  std::lock_guard lock(p->mutex);
  p->attributes.add(bytes);
}

Pool* pool_of(uint64_t base) {
  std::lock_guard lock(pools_mutex());
  auto it = owners().find(base);
  return it == owners().end() ? nullptr : it->second;
}

void remove_from_pool(uint64_t base, uint64_t bytes) {
  std::lock_guard lock(pools_mutex());
  auto it = owners().find(base);
  if (it == owners().end()) return;
  if (is_live(it->second)) {
    std::lock_guard own(it->second->mutex);
    it->second->attributes.subtract(bytes);
  }
  owners().erase(it);
}

}  // namespace softgpu
