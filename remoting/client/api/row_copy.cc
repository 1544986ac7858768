// CUDA entry points: 2D, 3D and array copies.
#include "client/row_copy.h"

#include <cstring>

#include "export.h"

using namespace busbar;
using namespace busbar::client;

static CUDA_MEMCPY3D as_3d(const CUDA_MEMCPY2D& p) {
  CUDA_MEMCPY3D q{};
  q.srcXInBytes = p.srcXInBytes;
  q.srcY = p.srcY;
  q.srcMemoryType = p.srcMemoryType;
  q.srcHost = p.srcHost;
  q.srcDevice = p.srcDevice;
  q.srcArray = p.srcArray;
  q.srcPitch = p.srcPitch;
  q.dstXInBytes = p.dstXInBytes;
  q.dstY = p.dstY;
  q.dstMemoryType = p.dstMemoryType;
  q.dstHost = p.dstHost;
  q.dstDevice = p.dstDevice;
  q.dstArray = p.dstArray;
  q.dstPitch = p.dstPitch;
  q.WidthInBytes = p.WidthInBytes;
  q.Height = p.Height;
  q.Depth = 1;
  return q;
}

API CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* p) {
  return p ? copy_rows(as_3d(*p), nullptr, true) : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* p) {
  return cuMemcpy2D_v2(p);
}
API CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* p, CUstream s) {
  return p ? copy_rows(as_3d(*p), s, false) : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* p) {
  return p ? copy_rows(*p, nullptr, true) : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* p, CUstream s) {
  return p ? copy_rows(*p, s, false) : CUDA_ERROR_INVALID_VALUE;
}
