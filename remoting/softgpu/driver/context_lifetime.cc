#include "softgpu/driver/context_lifetime.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "softgpu/driver/capture.h"
#include "softgpu/driver/context.h"
#include "softgpu/driver/driver.h"
#include "softgpu/driver/handles.h"
#include "softgpu/driver/memory.h"
#include "softgpu/driver/object_query.h"
#include "softgpu/driver/stream_queue.h"
#include "softgpu/driver/surface.h"
#include "softgpu/driver/tensor_copy.h"
#include "softgpu/driver/texture.h"

namespace softgpu {

Context* create_context(DeviceState* d, unsigned flags, bool primary) {
  if (!d->engine->charge(d->engine->config().context_bytes)) return nullptr;
  auto* c = new Context;
  c->device = d;
  c->flags = flags;
  c->primary = primary;
  auto legacy = std::make_shared<StreamState>();
  legacy->context = c;
  legacy->legacy = true;
  c->streams.push_back(legacy);
  Driver* dr = driver();
  std::lock_guard lock(dr->mutex);
  c->id = dr->next_id++;
  if (!d->runner)
    d->runner = std::make_unique<GridRunner>(
        d->engine, std::clamp(std::thread::hardware_concurrency(), 1u, 64u),
        GridRunner::HostMemory{registered_memory, sample_texture, access_surface, query_object,
                               copy_tensor});
  dr->handles[c] = kind_of<Context>();
  return c;
}

void destroy_context(Context* c) {
  {
    std::lock_guard lock(c->mutex);
    c->destroyed = true;
    c->arriving += c->free_threads.size();
    for (FreeThread* thread : std::exchange(c->free_threads, {})) thread->call();
  }
  wait_for_context(c);
  Driver* d = driver();
  std::vector<uint64_t> bases;
  {
    std::lock_guard lock(d->mutex);
    for (auto& [base, a] : d->allocations)
      if (a.context == c && (a.kind == Allocation::device || a.kind == Allocation::host))
        bases.push_back(base);
  }
  for (uint64_t base : bases) release_memory(base);
  c->device->engine->refund(c->device->engine->config().context_bytes);
  std::lock_guard lock(c->mutex);
  for (auto& s : c->streams) {
    cancel_capture(s);
    s->closing = true;
  }
}

bool is_usable(CUcontext handle) {
  auto* c = (Context*)handle;
  return c && is_live(c) && (c->primary || !c->destroyed);
}

}  // namespace softgpu
