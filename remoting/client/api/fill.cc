// CUDA entry points: fills of device memory, and copies within it. A range that is too long is
// refused here, because an error of the node ends the session.
#include "checked_size.h"
#include "client/api/require.h"
#include "client/wrapped_calls.h"

using namespace busbar::client;

// Return whether a range begins in memory of the GPU or in pinned memory, and ends behind it.
static bool is_too_long(CUdeviceptr p, CheckedSize bytes) {
  if (!has_session()) return false;
  Region r = session()->addresses.find(p);
  if (r.kind == Region::pinned) return !bytes.within(r.base + r.bytes - p);
  return r.on_device() && (!bytes.valid() || !session()->addresses.device_range(p, bytes.value()));
}

static bool is_invalid_fill(CUdeviceptr p, size_t n, unsigned element) {
  return p % element || is_too_long(p, CheckedSize(n) * element);
}

static bool is_invalid_fill(CUdeviceptr p, size_t pitch, size_t width, size_t height,
                            unsigned element) {
  CheckedSize row = CheckedSize(width) * element;
  if (p % element || !row.within(pitch)) return true;
  return width && height && is_too_long(p, CheckedSize(pitch) * (height - 1) + row);
}

API CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char value, size_t n, CUstream s) {
  if (is_invalid_fill(p, n, 1)) return CUDA_ERROR_INVALID_VALUE;
  return send_cuMemsetD8Async(p, value, n, s);
}
API CUresult cuMemsetD16Async(CUdeviceptr p, unsigned short value, size_t n, CUstream s) {
  if (is_invalid_fill(p, n, 2)) return CUDA_ERROR_INVALID_VALUE;
  return send_cuMemsetD16Async(p, value, n, s);
}
API CUresult cuMemsetD32Async(CUdeviceptr p, unsigned value, size_t n, CUstream s) {
  if (is_invalid_fill(p, n, 4)) return CUDA_ERROR_INVALID_VALUE;
  return send_cuMemsetD32Async(p, value, n, s);
}
API CUresult cuMemsetD2D8Async(CUdeviceptr p, size_t pitch, unsigned char value, size_t width,
                               size_t height, CUstream s) {
  if (is_invalid_fill(p, pitch, width, height, 1)) return CUDA_ERROR_INVALID_VALUE;
  return send_cuMemsetD2D8Async(p, pitch, value, width, height, s);
}
API CUresult cuMemsetD2D16Async(CUdeviceptr p, size_t pitch, unsigned short value, size_t width,
                                size_t height, CUstream s) {
  if (is_invalid_fill(p, pitch, width, height, 2)) return CUDA_ERROR_INVALID_VALUE;
  return send_cuMemsetD2D16Async(p, pitch, value, width, height, s);
}
API CUresult cuMemsetD2D32Async(CUdeviceptr p, size_t pitch, unsigned value, size_t width,
                                size_t height, CUstream s) {
  if (is_invalid_fill(p, pitch, width, height, 4)) return CUDA_ERROR_INVALID_VALUE;
  return send_cuMemsetD2D32Async(p, pitch, value, width, height, s);
}

API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
  if (is_too_long(to, n) || is_too_long(from, n)) return CUDA_ERROR_INVALID_VALUE;
  return send_cuMemcpyDtoDAsync_v2(to, from, n, s);
}
