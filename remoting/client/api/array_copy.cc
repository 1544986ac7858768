// CUDA entry points: copies of rows of arrays, and 3D copies between devices. They only call
// cuMemcpy3D, so the software GPU's driver contains this file too.
#include <cuda.h>

#include <cstring>

#include "export.h"

static CUresult copy_rows(const CUDA_MEMCPY3D& p, CUstream s, bool synchronous) {
  return synchronous ? cuMemcpy3D(&p) : cuMemcpy3DAsync(&p, s);
}

// The peer form has contexts in place of reserved members. They are not needed: the addresses
// determine the devices.
static CUDA_MEMCPY3D without_contexts(const CUDA_MEMCPY3D_PEER& p) {
  static_assert(sizeof(CUDA_MEMCPY3D) == sizeof(CUDA_MEMCPY3D_PEER));
  CUDA_MEMCPY3D q;
  std::memcpy(&q, &p, sizeof q);
  q.reserved0 = q.reserved1 = nullptr;
  return q;
}
API CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* p) {
  return p ? copy_rows(without_contexts(*p), nullptr, true) : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* p, CUstream s) {
  return p ? copy_rows(without_contexts(*p), s, false) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult copy_line(CUarray from_array, uint64_t from, CUarray to_array, uint64_t to,
                          size_t n, bool host, CUstream s, bool synchronous) {
  CUDA_MEMCPY3D p{};
  CUmemorytype other = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  p.srcMemoryType = from_array ? CU_MEMORYTYPE_ARRAY : other;
  p.dstMemoryType = to_array ? CU_MEMORYTYPE_ARRAY : other;
  p.srcArray = from_array;
  p.dstArray = to_array;
  if (from_array)
    p.srcXInBytes = from;
  else {
    p.srcHost = (void*)from;
    p.srcDevice = from;
  }
  if (to_array)
    p.dstXInBytes = to;
  else {
    p.dstHost = (void*)to;
    p.dstDevice = to;
  }
  p.WidthInBytes = n;
  p.Height = p.Depth = 1;
  return copy_rows(p, s, synchronous);
}
API CUresult cuMemcpyDtoA_v2(CUarray a, size_t at, CUdeviceptr p, size_t n) {
  if (!a) return CUDA_ERROR_INVALID_VALUE;
  return copy_line(nullptr, p, a, at, n, false, nullptr, true);
}
API CUresult cuMemcpyAtoD_v2(CUdeviceptr p, CUarray a, size_t at, size_t n) {
  if (!a) return CUDA_ERROR_INVALID_VALUE;
  return copy_line(a, at, nullptr, p, n, false, nullptr, true);
}
API CUresult cuMemcpyHtoA_v2(CUarray a, size_t at, const void* p, size_t n) {
  if (!a) return CUDA_ERROR_INVALID_VALUE;
  return copy_line(nullptr, (uint64_t)p, a, at, n, true, nullptr, true);
}
API CUresult cuMemcpyAtoH_v2(void* p, CUarray a, size_t at, size_t n) {
  if (!a) return CUDA_ERROR_INVALID_VALUE;
  return copy_line(a, at, nullptr, (uint64_t)p, n, true, nullptr, true);
}
API CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_at, CUarray from, size_t from_at, size_t n) {
  if (!from || !to) return CUDA_ERROR_INVALID_VALUE;
  return copy_line(from, from_at, to, to_at, n, false, nullptr, true);
}
API CUresult cuMemcpyHtoAAsync_v2(CUarray a, size_t at, const void* p, size_t n, CUstream s) {
  if (!a) return CUDA_ERROR_INVALID_VALUE;
  return copy_line(nullptr, (uint64_t)p, a, at, n, true, s, false);
}
API CUresult cuMemcpyAtoHAsync_v2(void* p, CUarray a, size_t at, size_t n, CUstream s) {
  if (!a) return CUDA_ERROR_INVALID_VALUE;
  return copy_line(a, at, nullptr, (uint64_t)p, n, true, s, false);
}
