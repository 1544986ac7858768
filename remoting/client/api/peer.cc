// CUDA entry points: copies by address and between devices, and peer access.
#include <algorithm>

#include "client/api/require.h"
#include "client/call.h"

using namespace busbar::client;

static bool on_device(CUdeviceptr p) {
  return session()->addresses.find(p).on_device();
}

static CUresult copy_by_address(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s,
                                bool synchronous) {
  REQUIRE_SESSION;
  bool in = on_device(to), out = on_device(from);
  if (in && out) return cuMemcpyDtoDAsync_v2(to, from, n, s);
  if (in)
    return synchronous ? cuMemcpyHtoD_v2(to, (void*)from, n)
                       : cuMemcpyHtoDAsync_v2(to, (void*)from, n, s);
  if (out)
    return synchronous ? cuMemcpyDtoH_v2((void*)to, from, n)
                       : cuMemcpyDtoHAsync_v2((void*)to, from, n, s);
  Call call;
  if (CUresult r = call.begin(s)) return r;
  if (n && (!to || !from)) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = wait_for_submitted(call.stream())) return r;
  std::copy_n((const char*)from, n, (char*)to);
  return CUDA_SUCCESS;
}

API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n) {
  return copy_by_address(to, from, n, nullptr, true);
}
API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
  return copy_by_address(to, from, n, s, false);
}

// The form without a stream waits for all work of both contexts.
API CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext a, CUdeviceptr from, CUcontext b, size_t n) {
  REQUIRE_SESSION;
  for (CUcontext h : {a, b}) {
    Context* c = session()->contexts.get(h);
    if (!c) return CUDA_ERROR_INVALID_CONTEXT;
    if (CUresult r = synchronize(c)) return r;
  }
  if (CUresult r = cuMemcpyDtoDAsync_v2(to, from, n, nullptr)) return r;
  Context* current = current_context();
  return wait_for_submitted(&current->legacy);
}
API CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext a, CUdeviceptr from, CUcontext b, size_t n,
                               CUstream s) {
  REQUIRE_SESSION;
  if (!session()->contexts.get(a) || !session()->contexts.get(b)) return CUDA_ERROR_INVALID_CONTEXT;
  return cuMemcpyDtoDAsync_v2(to, from, n, s);
}

// Kernels cannot access the memory of another partition: cuDeviceCanAccessPeer reports this.
API CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  REQUIRE_CONTEXT(c);
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  return session()->contexts.get(peer) ? CUDA_ERROR_PEER_ACCESS_UNSUPPORTED
                                       : CUDA_ERROR_INVALID_CONTEXT;
}
API CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  REQUIRE_CONTEXT(c);
  return session()->contexts.get(peer) ? CUDA_ERROR_PEER_ACCESS_NOT_ENABLED
                                       : CUDA_ERROR_INVALID_CONTEXT;
}
API CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute which, CUdevice a,
                                     CUdevice b) {
  REQUIRE_SESSION;
  int n = (int)session()->devices.size();
  if (a < 0 || b < 0 || a >= n || b >= n) return CUDA_ERROR_INVALID_DEVICE;
  if (!value || a == b || which < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK)
    return CUDA_ERROR_INVALID_VALUE;
  *value = 0;
  return CUDA_SUCCESS;
}
