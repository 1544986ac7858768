#include "server/staging.h"

namespace busbar::server {

void grow_pool(Pipeline& p) {
  Session& s = p.session;
  p.workers.memory.post(s.current, [&s] {
    s.pinned.grow();
    s.link.wake();
  });
}

Outcome take_staging(Pipeline& p, StreamState& st, uint64_t bytes, PinnedBuffer& out) {
  PinnedPool& pool = p.session.pinned;
  bool needs_slab = false;
  out = pool.acquire(bytes, st.use, needs_slab);
  if (out) return Outcome::done;
  Growth growth = needs_slab ? pool.begin_growth() : Growth::impossible;
  if (growth == Growth::begin) grow_pool(p);
  if (growth != Growth::impossible || !pool.unused()) return Outcome::waits;
  p.fences.check(CUDA_ERROR_OUT_OF_MEMORY);
  return Outcome::done;
}

// A stream holds at most as many chunks as are still free.
int take_chunk(Pipeline& p, StreamState& st) {
  transport::SharedMemory& shared = *p.session.link.shared();
  uint32_t held = st.use->chunks.load(std::memory_order_relaxed);
  auto within_share = [&] {
    return !held || held < shared.free_chunks(false);
  };
  int chunk = within_share() ? shared.acquire_chunk(false) : -1;
  if (chunk < 0 && shared.want_chunk() && within_share()) chunk = shared.acquire_chunk(false);
  if (chunk >= 0) ++st.use->chunks;
  return chunk;
}

}  // namespace busbar::server
