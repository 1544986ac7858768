// CUDA entry points: device memory.
#include <algorithm>

#include "checked_size.h"
#include "client/api/require.h"
#include "client/capture.h"
#include "client/device_memory.h"
#include "client/graph_memory.h"
#include "client/host_mirror_count.h"
#include "client/managed.h"
#include "client/pool.h"

using namespace busbar;
using namespace busbar::client;

static constexpr size_t kPitchAlign = 512;

API CUresult cuMemAlloc(CUdeviceptr* out, size_t bytes) {
  REQUIRE_CONTEXT(c);
  REQUIRE_CAPTURE_SAFE;
  if (!out || !bytes) return CUDA_ERROR_INVALID_VALUE;
  uint64_t at = 0;
  if (CUresult r = allocate_device_memory(c, bytes, at)) return r;
  session()->addresses.add({Region::device, at, bytes, 0, c, 0});
  *out = at;
  return CUDA_SUCCESS;
}

API CUresult cuMemAllocPitch(CUdeviceptr* out, size_t* pitch, size_t width, size_t height,
                             unsigned element) {
  if (!out || !pitch || !width || !height || (element != 4 && element != 8 && element != 16))
    return CUDA_ERROR_INVALID_VALUE;
  CheckedSize row = CheckedSize(width).rounded_up(kPitchAlign), bytes = row * height;
  if (!bytes.valid()) return CUDA_ERROR_OUT_OF_MEMORY;
  *pitch = row.value();
  return cuMemAlloc(out, bytes.value());
}

API CUresult cuMemFree(CUdeviceptr p) {
  if (!has_session()) return CUDA_ERROR_DEINITIALIZED;
  REQUIRE_CAPTURE_SAFE;
  if (!p) return CUDA_SUCCESS;
  CUresult status;
  if (has_host_mirrors() && free_managed(p, status)) return status;
  if (free_graph_memory(p, status)) return status;
  Region r;
  if (!session()->addresses.remove(p, Region::device, &r)) return CUDA_ERROR_INVALID_VALUE;
  Heap::Done done = submitted_work_done(r.context);
  note_pool_free(p, done);
  return release_device_memory(r, std::move(done));
}

API CUresult cuMemGetInfo(size_t* free, size_t* total) {
  REQUIRE_CONTEXT(c);
  if (!free || !total) return CUDA_ERROR_INVALID_VALUE;
  Device* d = c->device;
  uint64_t id = d->link->next_id();
  wire::Encoder<> e(wire::Op::memory_info, c->id);
  e.put(id).put(d->remote);
  Reply reply = d->link->call(id, e.finish(), e.size());
  if (reply.status) return (CUresult)reply.status;
  wire::Decoder in(reply.body.data(), reply.body.size());
  uint64_t limit = in.get<uint64_t>(), charged = in.get<uint64_t>();
  uint64_t used = charged;
  if (d->heap) {
    // The unused part of this session's leases counts as free, and what is too small for a lease
    // does not.
    used = charged - std::min(charged, d->heap->unused_bytes());
    used += (limit - std::min(limit, charged)) % wire::kGranularity;
  }
  *total = limit;
  *free = limit - std::min(limit, used);
  if (d->heap && charged > limit) d->heap->return_unused();
  return in.ok() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

API CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr p) {
  REQUIRE_CONTEXT(c);
  (void)c;
  Region r = session()->addresses.find(p);
  if (r.kind == Region::none) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = r.base;
  if (bytes) *bytes = r.bytes;
  return CUDA_SUCCESS;
}
