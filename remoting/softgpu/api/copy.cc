// CUDA entry points: copies of linear memory, in stream order.
#include <cstring>
#include <memory>

#include "softgpu/api/require.h"
#include "softgpu/device/copy_measure.h"
#include "softgpu/driver/capture.h"
#include "softgpu/driver/context_lifetime.h"
#include "softgpu/driver/graph_node.h"
#include "softgpu/driver/memory.h"
#include "softgpu/driver/stream_queue.h"

using namespace softgpu;

static NodeParams linear_copy(void* to, const void* from, size_t n) {
  NodeParams p;
  p.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  p.copy.srcMemoryType = p.copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  p.copy.srcDevice = (CUdeviceptr)from;
  p.copy.dstDevice = (CUdeviceptr)to;
  p.copy.WidthInBytes = n;
  p.copy.Height = p.copy.Depth = 1;
  return p;
}

static CUresult copy(Context* c, CUstream h, void* to, const void* from, size_t n, bool wait) {
  REQUIRE_WORK_STREAM(s, h, c);
  NodeParams params = linear_copy(to, from, n);
  uint64_t at = enqueue(
      s,
      [=, engine = c->device->engine] {
        CopyMeasure measure(engine, n);
        std::memmove(to, from, n);
        return CUDA_SUCCESS;
      },
      {}, &params);
  return wait ? wait_for(s, at) : CUDA_SUCCESS;
}

// CUDA copies pageable source bytes before the call returns.
static CUresult copy_in(Context* c, CUstream h, CUdeviceptr to, const void* from, size_t n,
                        bool wait) {
  REQUIRE_WORK_STREAM(s, h, c);
  if (wait || allocated(from) || is_captured(s)) return copy(c, h, (void*)to, from, n, wait);
  auto snapshot =
      std::make_shared<std::vector<uint8_t>>((const uint8_t*)from, (const uint8_t*)from + n);
  enqueue(s, [=, engine = c->device->engine] {
    CopyMeasure measure(engine, n);
    std::memcpy((void*)to, snapshot->data(), n);
    return CUDA_SUCCESS;
  });
  return CUDA_SUCCESS;
}

#define REQUIRE_DEVICE_RANGE(p, n) \
  if (!valid_device_range(p, n)) return CUDA_ERROR_INVALID_VALUE
// An address of either side: device memory up to its end, or host memory.
#define REQUIRE_ADDRESS(p, n)                       \
  if (!(p) && (n)) return CUDA_ERROR_INVALID_VALUE; \
  if (valid_device_range(p, 1) && !valid_device_range(p, n)) return CUDA_ERROR_INVALID_VALUE
#define REQUIRE_HOST_POINTER(p, n) \
  if (!(p) && (n)) return CUDA_ERROR_INVALID_VALUE

API CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t n) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_DEVICE_RANGE(to, n);
  REQUIRE_HOST_POINTER(from, n);
  return copy_in(c, nullptr, to, from, n, true);
}
API CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t n, CUstream s) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_DEVICE_RANGE(to, n);
  REQUIRE_HOST_POINTER(from, n);
  return copy_in(c, s, to, from, n, false);
}
API CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t n) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_DEVICE_RANGE(from, n);
  REQUIRE_HOST_POINTER(to, n);
  return copy(c, nullptr, to, (void*)from, n, true);
}
API CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t n, CUstream s) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_DEVICE_RANGE(from, n);
  REQUIRE_HOST_POINTER(to, n);
  return copy(c, s, to, (void*)from, n, !allocated(to));
}
API CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t n) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_DEVICE_RANGE(to, n);
  REQUIRE_DEVICE_RANGE(from, n);
  return finish_host_write(copy(c, nullptr, (void*)to, (void*)from, n, false), to);
}
API CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_DEVICE_RANGE(to, n);
  REQUIRE_DEVICE_RANGE(from, n);
  return copy(c, s, (void*)to, (void*)from, n, false);
}
API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_ADDRESS(to, n);
  REQUIRE_ADDRESS(from, n);
  return copy(c, nullptr, (void*)to, (void*)from, n, true);
}
API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_ADDRESS(to, n);
  REQUIRE_ADDRESS(from, n);
  return copy(c, s, (void*)to, (void*)from, n, false);
}
// Serialised with all work of both contexts (CUDA driver API, cuMemcpyPeer).
API CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext a, CUdeviceptr from, CUcontext b, size_t n) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_DEVICE_RANGE(to, n);
  REQUIRE_DEVICE_RANGE(from, n);
  for (CUcontext x : {a, b}) {
    if (!is_usable(x)) return CUDA_ERROR_INVALID_CONTEXT;
    if (CUresult r = wait_for_context((Context*)x)) return r;
  }
  return copy(c, nullptr, (void*)to, (void*)from, n, true);
}
API CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext a, CUdeviceptr from, CUcontext b, size_t n,
                               CUstream s) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (!is_usable(a) || !is_usable(b)) return CUDA_ERROR_INVALID_CONTEXT;
  REQUIRE_DEVICE_RANGE(to, n);
  REQUIRE_DEVICE_RANGE(from, n);
  return copy(c, s, (void*)to, (void*)from, n, false);
}
