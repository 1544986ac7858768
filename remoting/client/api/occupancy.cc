// CUDA entry points: occupancy.
#include <algorithm>

#include "checked_size.h"
#include "client/api/require.h"
#include "client/call.h"
#include "client/library.h"
#include "wire/launch_attribute.h"

using namespace busbar;
using namespace busbar::client;

// Finds the largest block with the highest occupancy. `size_of`, if not null, returns the shared
// memory that a block of a given size needs.
API CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction h,
                                                       CUoccupancyB2DSize size_of, size_t dynamic,
                                                       int limit, unsigned flags) {
  REQUIRE_FUNCTION(f, h);
  if (!grid || !block) return CUDA_ERROR_INVALID_VALUE;
  const Device* d = f->module->context->device;
  int most = f->attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
  if (limit > 0) most = std::min(most, limit);
  int best = *grid = 0;  // if no block fits
  uint64_t best_threads = 0;
  for (int t = (most + 31) & ~31; t >= 32; t -= 32) {
    int blocks = 0, threads = std::min(t, most);
    if (CUresult r = cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            &blocks, h, threads, size_of ? size_of(threads) : dynamic, flags))
      return r;
    uint64_t resident = volume((unsigned)blocks, (unsigned)threads, 1);
    if (resident > best_threads) {
      best_threads = resident;
      best = threads;
      *grid = (int)volume((unsigned)blocks,
                          (unsigned)d->attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT], 1);
    }
  }
  *block = best;
  return CUDA_SUCCESS;
}
API CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction h,
                                              CUoccupancyB2DSize size_of, size_t dynamic,
                                              int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, h, size_of, dynamic, limit, 0);
}

static CUresult query_clusters(int* out, CUfunction h, const CUlaunchConfig* c, wire::Op op) {
  if (!h) return CUDA_ERROR_INVALID_VALUE;
  REQUIRE_FUNCTION(f, h);
  if (!out || !c || c->numAttrs > wire::kMaxLaunchAttributes || (c->numAttrs && !c->attrs))
    return CUDA_ERROR_INVALID_VALUE;
  Call call;
  if (CUresult r = call.begin(kNoStreamHandle)) return r;
  wire::Encoder<wire::kMaxLaunchAttributes * sizeof(CUlaunchAttribute) + 128> e(op,
                                                                                call.context_id());
  e.put(call.reply_id())
      .put(f->id)
      .put(c->gridDimX)
      .put(c->gridDimY)
      .put(c->gridDimZ)
      .put(c->blockDimX)
      .put(c->blockDimY)
      .put(c->blockDimZ)
      .put(c->sharedMemBytes)
      .put((uint32_t)c->numAttrs);
  if (c->numAttrs) e.raw(c->attrs, (uint32_t)(c->numAttrs * sizeof(CUlaunchAttribute)));
  wire::Decoder reply = call.send_and_wait(e.finish(), e.size());
  if (!call.status()) *out = reply.get<int>();
  return call.status();
}
API CUresult cuOccupancyMaxActiveClusters(int* out, CUfunction h, const CUlaunchConfig* c) {
  return query_clusters(out, h, c, wire::Op::active_clusters);
}
API CUresult cuOccupancyMaxPotentialClusterSize(int* out, CUfunction h, const CUlaunchConfig* c) {
  return query_clusters(out, h, c, wire::Op::cluster_size);
}
