// CUDA entry points: fills of linear memory and of rows.
#include <algorithm>

#include "checked_size.h"
#include "softgpu/api/require.h"
#include "softgpu/device/copy_measure.h"
#include "softgpu/driver/fill.h"
#include "softgpu/driver/graph_node.h"
#include "softgpu/driver/memory.h"
#include "softgpu/driver/stream_queue.h"

using namespace softgpu;

static bool is_host(uint64_t p) {
  std::lock_guard lock(driver()->mutex);
  const Allocation* a = find_allocation(p);
  return a && (a->kind == Allocation::host || a->kind == Allocation::registered);
}

template <typename T>
static CUresult fill(CUdeviceptr p, T value, size_t n, CUstream h) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (p % sizeof(T)) return CUDA_ERROR_INVALID_VALUE;
  CheckedSize bytes = CheckedSize(n) * sizeof(T);
  if (!bytes.valid() || !valid_device_range(p, bytes.value())) return CUDA_ERROR_INVALID_VALUE;
  REQUIRE_WORK_STREAM(s, h, c);
  NodeParams params;
  params.type = CU_GRAPH_NODE_TYPE_MEMSET;
  params.fill = {p, 0, (unsigned)value, sizeof(T), n, 1};
  uint64_t at = enqueue(
      s,
      [=, engine = c->device->engine] {
        CopyMeasure measure(engine, bytes.value());
        std::fill_n((T*)p, n, value);
        return CUDA_SUCCESS;
      },
      {}, &params);
  return h == nullptr && is_host(p) ? wait_for(s, at)
                                    : CUDA_SUCCESS;  // synchronous when the target is host memory
}
API CUresult cuMemsetD8(CUdeviceptr p, unsigned char v, size_t n) {
  return finish_host_write(fill<uint8_t>(p, v, n, nullptr), p);
}
API CUresult cuMemsetD16(CUdeviceptr p, unsigned short v, size_t n) {
  return finish_host_write(fill<uint16_t>(p, v, n, nullptr), p);
}
API CUresult cuMemsetD32(CUdeviceptr p, unsigned v, size_t n) {
  return finish_host_write(fill<uint32_t>(p, v, n, nullptr), p);
}
API CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char v, size_t n, CUstream s) {
  return fill<uint8_t>(p, v, n, s);
}
API CUresult cuMemsetD16Async(CUdeviceptr p, unsigned short v, size_t n, CUstream s) {
  return fill<uint16_t>(p, v, n, s);
}
API CUresult cuMemsetD32Async(CUdeviceptr p, unsigned v, size_t n, CUstream s) {
  return fill<uint32_t>(p, v, n, s);
}

template <typename T>
static CUresult fill_rows(CUdeviceptr p, size_t pitch, T value, size_t width, size_t height,
                          CUstream h) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_WORK_STREAM(s, h, c);
  NodeParams params;
  params.type = CU_GRAPH_NODE_TYPE_MEMSET;
  params.fill = {p, pitch, (unsigned)value, sizeof(T), width, height};
  if (!(CheckedSize(width) * sizeof(T)).within(pitch)) return CUDA_ERROR_INVALID_VALUE;
  std::function<CUresult()> run;
  if (CUresult r = fill_runner(c->device->engine, params.fill, run)) return r;
  enqueue(s, std::move(run), {}, &params);
  return CUDA_SUCCESS;
}

API CUresult cuMemsetD2D8(CUdeviceptr p, size_t pitch, unsigned char v, size_t w, size_t h) {
  return finish_host_write(fill_rows<uint8_t>(p, pitch, v, w, h, nullptr), p);
}
API CUresult cuMemsetD2D16(CUdeviceptr p, size_t pitch, unsigned short v, size_t w, size_t h) {
  return finish_host_write(fill_rows<uint16_t>(p, pitch, v, w, h, nullptr), p);
}
API CUresult cuMemsetD2D32(CUdeviceptr p, size_t pitch, unsigned v, size_t w, size_t h) {
  return finish_host_write(fill_rows<uint32_t>(p, pitch, v, w, h, nullptr), p);
}
API CUresult cuMemsetD2D8Async(CUdeviceptr p, size_t pitch, unsigned char v, size_t w, size_t h,
                               CUstream s) {
  return fill_rows<uint8_t>(p, pitch, v, w, h, s);
}
API CUresult cuMemsetD2D16Async(CUdeviceptr p, size_t pitch, unsigned short v, size_t w, size_t h,
                                CUstream s) {
  return fill_rows<uint16_t>(p, pitch, v, w, h, s);
}
API CUresult cuMemsetD2D32Async(CUdeviceptr p, size_t pitch, unsigned v, size_t w, size_t h,
                                CUstream s) {
  return fill_rows<uint32_t>(p, pitch, v, w, h, s);
}
