// CUDA entry points: device memory.
#include <algorithm>
#include <mutex>

#include "checked_size.h"
#include "softgpu/api/require.h"
#include "softgpu/driver/capture.h"
#include "softgpu/driver/graph_memory.h"
#include "softgpu/driver/memory.h"
#include "softgpu/driver/stream_queue.h"

using namespace softgpu;

API CUresult cuMemAlloc(CUdeviceptr* out, size_t bytes) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (CUresult r = unsafe_in_capture()) return r;
  if (!out || !bytes) return CUDA_ERROR_INVALID_VALUE;
  return allocate_memory(c, bytes, out);
}

API CUresult cuMemAllocPitch(CUdeviceptr* out, size_t* pitch, size_t width, size_t height,
                             unsigned element) {
  if (!out || !pitch || !width || !height || (element != 4 && element != 8 && element != 16))
    return CUDA_ERROR_INVALID_VALUE;
  CheckedSize rounded = CheckedSize(width).rounded_up(512), bytes = rounded * height;
  if (!bytes.valid()) return CUDA_ERROR_OUT_OF_MEMORY;
  *pitch = rounded.value();
  return cuMemAlloc(out, bytes.value());
}

API CUresult cuMemFree(CUdeviceptr p) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (CUresult r = unsafe_in_capture()) return r;
  if (!p) return CUDA_SUCCESS;
  CUresult status;
  if (free_graph_memory(p, status)) return status;
  {
    std::lock_guard lock(driver()->mutex);
    auto it = driver()->allocations.find(p);
    if (it == driver()->allocations.end() || it->second.kind != Allocation::device)
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (CUresult r = wait_for_context(c)) return r;
  return release_memory(p);
}

API CUresult cuMemGetInfo(size_t* free, size_t* total) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (!free || !total) return CUDA_ERROR_INVALID_VALUE;
  *total = c->device->engine->total_bytes();
  *free = *total - std::min<uint64_t>(*total, c->device->engine->used_bytes());
  return CUDA_SUCCESS;
}

API CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr p) {
  REQUIRE_CURRENT_CONTEXT(c);
  (void)c;
  std::lock_guard lock(driver()->mutex);
  const Allocation* a = find_allocation(p);
  if (!a) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = a->base;
  if (bytes) *bytes = a->bytes;
  return CUDA_SUCCESS;
}
