// CUDA entry points: memory of another process of the same allocation.
//
// A handle identifies the session that owns the memory; the session servers of the node exchange
// the memory. The processes may run on different machines if their sessions are on one node.
#include <cstring>
#include <map>

#include "client/address_reservation.h"
#include "client/call.h"
#include "export.h"

using namespace busbar;
using namespace busbar::client;

namespace {
struct Opened {
  uint64_t base, bytes;  // of the reserved range
  Link* link;
};
struct OpenedMemory {
  std::mutex mutex;
  std::map<uint64_t, Opened> by_address;  // by the address that the program has
};
OpenedMemory& opened_memory() {
  static auto* m = new OpenedMemory;
  return *m;
}
static_assert(sizeof(wire::IpcToken) == sizeof(CUipcMemHandle));
}  // namespace

API CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr p) {
  Call call;
  if (CUresult r = call.begin(kNoStreamHandle)) return r;
  Region region = session()->addresses.find(p);
  if (!out || region.kind != Region::device) return CUDA_ERROR_INVALID_VALUE;
  if (!region.context->device->heap) return CUDA_ERROR_NOT_SUPPORTED;
  if (CUresult r = call.move_to_node_of(p)) return r;
  if (CUresult r = call.drain()) return r;
  wire::Encoder<> e(wire::Op::ipc_export, call.context_id());
  e.put(call.reply_id()).put(region.base);
  wire::Decoder reply = call.send_and_wait(e.finish(), e.size());
  if (!call.status()) {
    auto token = reply.get<wire::IpcToken>();
    std::memcpy(out, &token, sizeof token);
  }
  return call.status();
}

#undef cuIpcOpenMemHandle
API CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) {
  Call call;
  if (CUresult r = call.begin(kNoStreamHandle)) return r;
  wire::IpcToken token;
  std::memcpy(&token, &handle, sizeof token);
  if (!out || flags > CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
  bool own = call.link()->is_session(token.session);  // CUDA forbids this too
  if (std::memcmp(token.magic, wire::kIpcMagic, sizeof token.magic) || own ||
      token.offset >= token.bytes || token.bytes % wire::kGranularity)
    return CUDA_ERROR_INVALID_HANDLE;
  uint64_t at = 0;
  if (CUresult r = reserve_addresses(call.link(), call.context_id(), token.bytes, 0, at)) return r;
  wire::Encoder<> e(wire::Op::ipc_open, call.context_id());
  e.put(call.reply_id()).put(token).put((uint64_t)call.context()->device->remote).put(at);
  call.send_and_wait(e.finish(), e.size());
  if (call.status()) {
    cuMemAddressFree(at, token.bytes);
    return call.status();
  }
  *out = at + token.offset;
  session()->addresses.add(
      {Region::mapped, *out, token.bytes - token.offset, 0, call.context(), 0});
  std::lock_guard lock(opened_memory().mutex);
  opened_memory().by_address[*out] = {at, token.bytes, call.link()};
  return CUDA_SUCCESS;
}
API CUresult cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) {
  return cuIpcOpenMemHandle_v2(out, handle, flags);
}

API CUresult cuIpcCloseMemHandle(CUdeviceptr p) {
  Call call;
  if (CUresult r = call.begin(kNoStreamHandle)) return r;
  Opened o;
  {
    std::lock_guard lock(opened_memory().mutex);
    auto it = opened_memory().by_address.find(p);
    if (it == opened_memory().by_address.end()) return CUDA_ERROR_INVALID_VALUE;
    o = it->second;
    opened_memory().by_address.erase(it);
  }
  if (CUresult r = call.drain()) return r;
  session()->addresses.remove(p, Region::mapped);
  uint64_t id = o.link->next_id();
  wire::Encoder<> e(wire::Op::ipc_close, call.context_id());
  e.put(id).put(o.base).put(o.bytes);
  CUresult r = (CUresult)o.link->call(id, e.finish(), e.size()).status;
  cuMemAddressFree(o.base, o.bytes);
  return r;
}
