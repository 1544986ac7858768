// Copies that may leave a device: generic copies by address, and copies between devices, of one
// node or of two.
#include <algorithm>
#include <vector>

#include "client/call.h"

namespace busbar::client {

namespace {
constexpr uint64_t kStagedBytes = 8 << 20;  // on their way through this process, twice

// Bytes of a node's device into memory of ours, in order with all work of that context's blocking
// streams.
CUresult fetch(Context* c, void* to, uint64_t from, uint64_t bytes) {
  Link* link = c->device->link;
  wire::Encoder<> e(wire::Op::copy_out, c->id, c->legacy.id);
  e.put(from).put(bytes).put(link->expect(to, bytes));
  uint64_t at = link->submit(e.finish(), e.size());
  if (!at) return link->error();
  submitted(&c->legacy, at);
  return CUDA_SUCCESS;
}
}  // namespace

// Two nodes share no wire but this process. Both ends are waited for, so every later record of any
// stream comes after the copy.
CUresult copy_between_nodes(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  Call call;
  if (CUresult r = call.begin(stream)) return r;
  AddressMap& map = session()->addresses;
  if (!map.device_range(to, bytes) || !map.device_range(from, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = wait_for(call.stream(), call.stream()->progress.last.load())) return r;
  Context *source = map.find(from).context, *target = map.find(to).context;
  std::vector<char> staged[2];
  uint64_t asked = 0;
  auto ask = [&](int slot) -> CUresult {
    uint64_t n = std::min<uint64_t>(bytes - asked, kStagedBytes);
    staged[slot].resize(n);
    CUresult r = n ? fetch(source, staged[slot].data(), from + asked, n) : CUDA_SUCCESS;
    asked += n;
    return r;
  };
  if (CUresult r = ask(0)) return r;
  for (uint64_t done = 0; done < bytes;) {
    int slot = (int)(done / kStagedBytes % 2);
    if (CUresult r = wait_for(&source->legacy, source->legacy.progress.last.load()))
      return r;  // nothing is under way while `staged` changes hands
    if (CUresult r = ask(1 - slot)) return r;
    CUresult r = send_in(target, to + done, staged[slot].data(), staged[slot].size());
    if (!r) {
      done += staged[slot].size();
      continue;
    }
    wait_for(&source->legacy, source->legacy.progress.last.load());
    return r;
  }
  return wait_for(&target->legacy, target->legacy.progress.last.load());
}

}  // namespace busbar::client

using namespace busbar;
using namespace busbar::client;

static bool on_device(CUdeviceptr p) {
  return session()->addresses.find(p).on_device();
}

static CUresult copy_by_address(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s,
                                bool synchronous) {
  if (!session()) return CUDA_ERROR_NOT_INITIALIZED;
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
  if (CUresult r = wait_for(call.stream(), call.stream()->progress.last.load())) return r;
  std::copy_n((const char*)from, n, (char*)to);
  return CUDA_SUCCESS;
}

API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n) {
  return copy_by_address(to, from, n, nullptr, true);
}
API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
  return copy_by_address(to, from, n, s, false);
}

// The form without a stream is serialised with all work of both contexts.
API CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext a, CUdeviceptr from, CUcontext b, size_t n) {
  if (!session()) return CUDA_ERROR_NOT_INITIALIZED;
  for (CUcontext h : {a, b}) {
    Context* c = session()->contexts.get(h);
    if (!c) return CUDA_ERROR_INVALID_CONTEXT;
    if (CUresult r = synchronize(c)) return r;
  }
  if (CUresult r = cuMemcpyDtoDAsync_v2(to, from, n, nullptr)) return r;
  Context* current = current_context();
  return wait_for(&current->legacy, current->legacy.progress.last.load());
}
API CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext a, CUdeviceptr from, CUcontext b, size_t n,
                               CUstream s) {
  if (!session()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!session()->contexts.get(a) || !session()->contexts.get(b)) return CUDA_ERROR_INVALID_CONTEXT;
  return cuMemcpyDtoDAsync_v2(to, from, n, s);
}

// Kernels cannot reach another partition's memory: cuDeviceCanAccessPeer says no, and so does this.
API CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  Context* c;
  if (CUresult r = require_context(c)) return r;
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  return session()->contexts.get(peer) ? CUDA_ERROR_PEER_ACCESS_UNSUPPORTED
                                       : CUDA_ERROR_INVALID_CONTEXT;
}
API CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  Context* c;
  if (CUresult r = require_context(c)) return r;
  return session()->contexts.get(peer) ? CUDA_ERROR_PEER_ACCESS_NOT_ENABLED
                                       : CUDA_ERROR_INVALID_CONTEXT;
}
API CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute which, CUdevice a,
                                     CUdevice b) {
  if (!session()) return CUDA_ERROR_NOT_INITIALIZED;
  int n = (int)session()->devices.size();
  if (a < 0 || b < 0 || a >= n || b >= n) return CUDA_ERROR_INVALID_DEVICE;
  if (!value || a == b || which < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK)
    return CUDA_ERROR_INVALID_VALUE;
  *value = 0;
  return CUDA_SUCCESS;
}
