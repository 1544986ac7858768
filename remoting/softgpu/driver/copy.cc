// Copies of two and three dimensions, and fills of two: rows of host memory, device memory and
// arrays.
#include <cstring>

#include "softgpu/driver/array.h"
#include "softgpu/driver/graph.h"

namespace softgpu {

namespace {
// One side of a copy: where row y of slice z begins. An array has a pitch of its own.
struct Side {
  uint64_t base = 0, pitch = 0, height = 0;
  bool device = false;
  uint64_t row(size_t y, size_t z) const { return base + (z * height + y) * pitch; }
};

CUresult side(CUmemorytype type, const void* host, CUdeviceptr device, CUarray array, size_t x,
              size_t y, size_t z, size_t pitch, size_t height, const CUDA_MEMCPY3D& c, Side& out) {
  size_t rows = height ? height : c.Height + y;
  if (type == CU_MEMORYTYPE_ARRAY) {
    const ArrayState* a = array_of(array);
    if (!a || x + c.WidthInBytes > a->pitch() || y + c.Height > a->rows() ||
        z + c.Depth > a->slices())
      return CUDA_ERROR_INVALID_VALUE;
    out = {a->base, a->pitch(), a->rows(), true};
  } else {
    if (!pitch) pitch = c.WidthInBytes + x;
    if (pitch < c.WidthInBytes + x) return CUDA_ERROR_INVALID_VALUE;
    out = {type == CU_MEMORYTYPE_HOST ? (uint64_t)host : (uint64_t)device, pitch, rows,
           type == CU_MEMORYTYPE_DEVICE};
  }
  if (!out.base) return CUDA_ERROR_INVALID_VALUE;
  out.base = out.row(y, z) + x;
  if (out.device && type == CU_MEMORYTYPE_DEVICE &&
      !valid_device_range(out.base, out.row(c.Height - 1, c.Depth - 1) - out.base + c.WidthInBytes))
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}
}  // namespace

CUresult copy_runner(const CUDA_MEMCPY3D& c, std::function<CUresult()>& run) {
  if (!c.WidthInBytes || !c.Height || !c.Depth) {
    run = [] {
      return CUDA_SUCCESS;
    };
    return CUDA_SUCCESS;
  }
  Side from, to;
  if (CUresult r = side(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcArray, c.srcXInBytes, c.srcY,
                        c.srcZ, c.srcPitch, c.srcHeight, c, from))
    return r;
  if (CUresult r = side(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray, c.dstXInBytes, c.dstY,
                        c.dstZ, c.dstPitch, c.dstHeight, c, to))
    return r;
  run = [from, to, width = c.WidthInBytes, height = c.Height, depth = c.Depth] {
    for (size_t z = 0; z < depth; ++z)
      for (size_t y = 0; y < height; ++y)
        std::memmove((void*)to.row(y, z), (const void*)from.row(y, z), width);
    return CUDA_SUCCESS;
  };
  return CUDA_SUCCESS;
}

}  // namespace softgpu

using namespace softgpu;

#define CURRENT(c) \
  Context* c;      \
  if (CUresult r = current_context(c)) return r

static CUresult copy(const CUDA_MEMCPY3D& p, CUstream h, bool wait) {
  CURRENT(c);
  StreamRef s;
  if (CUresult r = stream_for(h, c, s)) return r;
  NodeParams params;
  params.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  params.copy = p;
  std::function<CUresult()> run;
  if (CUresult r = copy_runner(p, run)) return r;
  uint64_t at = enqueue(s, std::move(run), {}, &params);
  bool pageable =
      p.srcMemoryType == CU_MEMORYTYPE_HOST ||
      p.dstMemoryType == CU_MEMORYTYPE_HOST;  // its bytes may change or go after the call
  return wait || pageable ? wait_for(s, at) : CUDA_SUCCESS;
}

static CUDA_MEMCPY3D widened(const CUDA_MEMCPY2D& c) {
  CUDA_MEMCPY3D p = {};
  p.srcXInBytes = c.srcXInBytes;
  p.srcY = c.srcY;
  p.srcMemoryType = c.srcMemoryType;
  p.srcHost = c.srcHost;
  p.srcDevice = c.srcDevice;
  p.srcArray = c.srcArray;
  p.srcPitch = c.srcPitch;
  p.dstXInBytes = c.dstXInBytes;
  p.dstY = c.dstY;
  p.dstMemoryType = c.dstMemoryType;
  p.dstHost = c.dstHost;
  p.dstDevice = c.dstDevice;
  p.dstArray = c.dstArray;
  p.dstPitch = c.dstPitch;
  p.WidthInBytes = c.WidthInBytes;
  p.Height = c.Height;
  p.Depth = 1;
  return p;
}

API CUresult cuMemcpy2D(const CUDA_MEMCPY2D* p) {
  return p ? copy(widened(*p), nullptr, true) : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* p) {
  return cuMemcpy2D(p);
}
API CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* p, CUstream s) {
  return p ? copy(widened(*p), s, false) : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuMemcpy3D(const CUDA_MEMCPY3D* p) {
  return p ? copy(*p, nullptr, true) : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D* p, CUstream s) {
  return p ? copy(*p, s, false) : CUDA_ERROR_INVALID_VALUE;
}

template <typename T>
static CUresult fill(CUdeviceptr p, size_t pitch, T value, size_t width, size_t height,
                     CUstream h) {
  CURRENT(c);
  StreamRef s;
  if (CUresult r = stream_for(h, c, s)) return r;
  NodeParams params;
  params.type = CU_GRAPH_NODE_TYPE_MEMSET;
  params.fill = {p, pitch, (unsigned)value, sizeof(T), width, height};
  if (pitch < width * sizeof(T)) return CUDA_ERROR_INVALID_VALUE;
  std::function<CUresult()> run;
  if (CUresult r = fill_runner(params.fill, run)) return r;
  enqueue(s, std::move(run), {}, &params);
  return CUDA_SUCCESS;
}

API CUresult cuMemsetD2D8(CUdeviceptr p, size_t pitch, unsigned char v, size_t w, size_t h) {
  return seen_by_host(fill<uint8_t>(p, pitch, v, w, h, nullptr), p);
}
API CUresult cuMemsetD2D16(CUdeviceptr p, size_t pitch, unsigned short v, size_t w, size_t h) {
  return seen_by_host(fill<uint16_t>(p, pitch, v, w, h, nullptr), p);
}
API CUresult cuMemsetD2D32(CUdeviceptr p, size_t pitch, unsigned v, size_t w, size_t h) {
  return seen_by_host(fill<uint32_t>(p, pitch, v, w, h, nullptr), p);
}
API CUresult cuMemsetD2D8Async(CUdeviceptr p, size_t pitch, unsigned char v, size_t w, size_t h,
                               CUstream s) {
  return fill<uint8_t>(p, pitch, v, w, h, s);
}
API CUresult cuMemsetD2D16Async(CUdeviceptr p, size_t pitch, unsigned short v, size_t w, size_t h,
                                CUstream s) {
  return fill<uint16_t>(p, pitch, v, w, h, s);
}
API CUresult cuMemsetD2D32Async(CUdeviceptr p, size_t pitch, unsigned v, size_t w, size_t h,
                                CUstream s) {
  return fill<uint32_t>(p, pitch, v, w, h, s);
}
