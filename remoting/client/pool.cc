#include "client/pool.h"

#include <map>
#include <tuple>

#include "client/device.h"
#include "client/handles.h"
#include "client/link.h"
#include "mutex.h"

namespace busbar::client {

namespace {
struct Pools {
  Mutex mutex;
  Handles<Pool, HandleKind::pool> handles;
  std::map<Device*, Pool*> defaults GUARDED_BY(mutex), current GUARDED_BY(mutex);
  // Address to pool and bytes.
  std::map<uint64_t, std::pair<Pool*, uint64_t>> allocations GUARDED_BY(mutex);
};
Pools& pools() {
  static auto* p = new Pools;
  return *p;
}
}  // namespace

Pool* find_pool(CUmemoryPool handle) {
  return pools().handles.get(handle);
}

Pool* create_pool(Device* d, uint64_t max_bytes) {
  auto* p = new Pool(d, max_bytes);
  p->handle = pools().handles.add(p);
  return p;
}

void destroy_pool(Pool* p) {
  MutexLock lock(pools().mutex);
  pools().handles.remove(p->handle);
  std::erase_if(pools().current, [&](auto& c) { return c.second == p; });
}

Pool* default_pool(Device* d) {
  MutexLock lock(pools().mutex);
  Pool*& p = pools().defaults[d];
  if (!p) p = create_pool(d, 0);
  return p;
}

Pool* current_pool(Device* d) {
  {
    MutexLock lock(pools().mutex);
    auto it = pools().current.find(d);
    if (it != pools().current.end()) return it->second;
  }
  return default_pool(d);
}

void set_current_pool(Device* d, Pool* p) {
  MutexLock lock(pools().mutex);
  pools().current[d] = p;
}

void reclaim_completed(Pool& p) {
  p.device->link->poll_frames();
  std::erase_if(p.freed, [&](auto& f) REQUIRES(p.mutex) {
    bool done = f.done();
    if (done) p.attributes.subtract(f.bytes);
    return done;
  });
}

void note_pool_allocation(Pool* p, uint64_t at, uint64_t bytes) {
  {
    MutexLock lock(pools().mutex);
    pools().allocations[at] = {p, bytes};
  }
  MutexLock lock(p->mutex);
  reclaim_completed(*p);
  p->attributes.add(bytes);
}

Pool* pool_of(uint64_t at) {
  MutexLock lock(pools().mutex);
  auto it = pools().allocations.find(at);
  return it == pools().allocations.end() ? nullptr : it->second.first;
}

void note_pool_free(uint64_t at, Heap::Done done) {
  Pool* p;
  uint64_t bytes;
  {
    MutexLock lock(pools().mutex);
    auto it = pools().allocations.find(at);
    if (it == pools().allocations.end()) return;
    std::tie(p, bytes) = it->second;
    pools().allocations.erase(it);
  }
  MutexLock lock(p->mutex);
  p->freed.push_back({std::move(done), bytes});
  reclaim_completed(*p);
}

}  // namespace busbar::client
