// Memory of another process of the same allocation. A handle names the session that has it; the
// nodes' session servers arrange the rest. Both processes may be anywhere, as long as their
// sessions are on one node.
#include <cstring>
#include <map>

#include "client/call.h"

namespace busbar::client {

namespace {
struct Opened {
  uint64_t range, bytes;
  Link* link;
};
struct Table {
  std::mutex mutex;
  std::map<uint64_t, Opened> of;
};
Table& table() {
  static auto* t = new Table;
  return *t;
}
static_assert(sizeof(wire::IpcToken) == sizeof(CUipcMemHandle));
}  // namespace
}  // namespace busbar::client

using namespace busbar;
using namespace busbar::client;

API CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr p) {
  Call call;
  if (CUresult r = call.begin(kNoStreamHandle)) return r;
  Region region = session()->addresses.find(p);
  if (!out || region.kind != Region::device) return CUDA_ERROR_INVALID_VALUE;
  if (!region.context->device->heap) return CUDA_ERROR_NOT_SUPPORTED;
  if (CUresult r = call.follow(p)) return r;
  if (CUresult r = call.drain()) return r;
  wire::Encoder<> e(wire::Op::ipc_export, call.context_id());
  e.put(call.reply_id()).put(region.base);
  wire::Decoder answer = call.answer(e.finish(), e.size());
  if (!call.status()) {
    auto token = answer.get<wire::IpcToken>();
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
  bool ours = call.link()->is_session(token.session);  // not in the process that made it
  if (std::memcmp(token.magic, wire::kIpcMagic, sizeof token.magic) || ours ||
      token.offset >= token.bytes || token.bytes % wire::kGranularity)
    return CUDA_ERROR_INVALID_HANDLE;
  uint64_t at = 0;
  if (CUresult r = reserve_on_both_sides(call.link(), call.context_id(), token.bytes, 0, at))
    return r;
  wire::Encoder<> e(wire::Op::ipc_open, call.context_id());
  e.put(call.reply_id()).put(token).put((uint64_t)call.context()->device->remote).put(at);
  call.answer(e.finish(), e.size());
  if (call.status()) {
    cuMemAddressFree(at, token.bytes);
    return call.status();
  }
  *out = at + token.offset;
  session()->addresses.add(
      {Region::mapped, *out, token.bytes - token.offset, 0, call.context(), 0});
  std::lock_guard lock(table().mutex);
  table().of[*out] = {at, token.bytes, call.link()};
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
    std::lock_guard lock(table().mutex);
    auto it = table().of.find(p);
    if (it == table().of.end()) return CUDA_ERROR_INVALID_VALUE;
    o = it->second;
    table().of.erase(it);
  }
  if (CUresult r = call.drain()) return r;
  session()->addresses.remove(p, Region::mapped);
  uint64_t id = o.link->next_id();
  wire::Encoder<> e(wire::Op::ipc_close, call.context_id());
  e.put(id).put(o.range).put(o.bytes);
  CUresult r = (CUresult)o.link->ask(id, e.finish(), e.size()).status;
  cuMemAddressFree(o.range, o.bytes);
  return r;
}
