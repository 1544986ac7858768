// CUDA entry points: copies of two and three dimensions.
#include "softgpu/driver/row_copy.h"
#include "softgpu/api/require.h"
#include "softgpu/driver/graph_node.h"
#include "softgpu/driver/memory.h"
#include "softgpu/driver/stream_queue.h"

using namespace softgpu;

static CUresult copy(const CUDA_MEMCPY3D& p, CUstream h, bool wait) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_WORK_STREAM(s, h, c);
  NodeParams params;
  params.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  params.copy = p;
  std::function<CUresult()> run;
  if (CUresult r = copy_runner(c->device->engine, p, run)) return r;
  uint64_t at = enqueue(s, std::move(run), {}, &params);
  bool pageable = (p.srcMemoryType == CU_MEMORYTYPE_HOST && !allocated(p.srcHost)) ||
                  (p.dstMemoryType == CU_MEMORYTYPE_HOST && !allocated(p.dstHost));
  return wait || pageable ? wait_for(s, at) : CUDA_SUCCESS;
}

static CUDA_MEMCPY3D as_3d(const CUDA_MEMCPY2D& c) {
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
  return p ? copy(as_3d(*p), nullptr, true) : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* p) {
  return cuMemcpy2D(p);
}
API CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* p, CUstream s) {
  return p ? copy(as_3d(*p), s, false) : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuMemcpy3D(const CUDA_MEMCPY3D* p) {
  return p ? copy(*p, nullptr, true) : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D* p, CUstream s) {
  return p ? copy(*p, s, false) : CUDA_ERROR_INVALID_VALUE;
}
