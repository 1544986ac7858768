// CUDA entry points: memory and events of another process of the same allocation.
//
// A handle identifies the session that owns the object; the session servers of the node exchange
// it. The processes may run on different machines if their sessions are on one node.
#include <cstring>
#include <map>

#include "client/address_reservation.h"
#include "client/api/require.h"
#include "client/call.h"
#include "client/create_event.h"
#include "client/event.h"
#include "client/memory_request.h"
#include "mutex.h"

using namespace busbar;
using namespace busbar::client;

namespace {
struct Opened {
  uint64_t base, bytes;  // of the reserved range
  Link* link;
  Context* context;
  uint64_t generation;  // of the context
  wire::IpcToken token;
  unsigned opens;
};
struct OpenedMemory {
  Mutex mutex;
  std::map<uint64_t, Opened> by_address GUARDED_BY(mutex);  // by the address that the program has
};
OpenedMemory& opened_memory() {
  static auto* m = new OpenedMemory;
  return *m;
}
static_assert(sizeof(wire::IpcToken) == sizeof(CUipcMemHandle));
static_assert(sizeof(wire::IpcToken) == sizeof(CUipcEventHandle));
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
  e.put(call.reply_id()).put(region.base).put(region.bytes);
  wire::Decoder reply = call.send_and_wait(e.finish(), e.size());
  if (!call.status()) {
    auto token = reply.get<wire::IpcToken>();
    std::memcpy(out, &token, sizeof token);
  }
  return call.status();
}

// A context that opens memory again gets the same address.
static bool open_again(Context* c, const wire::IpcToken& token, CUdeviceptr* out) {
  MutexLock lock(opened_memory().mutex);
  for (auto& [address, o] : opened_memory().by_address)
    if (o.context == c && o.generation == c->generation &&
        !std::memcmp(&o.token, &token, sizeof token)) {
      ++o.opens;
      *out = address;
      return true;
    }
  return false;
}

// NVIDIA's driver ignores unknown flags.
#undef cuIpcOpenMemHandle
API CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle, unsigned) {
  Call call;
  if (CUresult r = call.begin(kNoStreamHandle)) return r;
  wire::IpcToken token;
  std::memcpy(&token, &handle, sizeof token);
  if (!out || std::memcmp(token.magic, wire::kIpcMagic, sizeof token.magic))
    return CUDA_ERROR_INVALID_VALUE;
  if (call.link()->is_session(token.session)) return CUDA_ERROR_INVALID_CONTEXT;
  if (token.offset >= token.bytes || token.bytes % wire::kGranularity)
    return CUDA_ERROR_INVALID_HANDLE;
  if (open_again(call.context(), token, out)) return CUDA_SUCCESS;
  uint64_t at = 0;
  if (CUresult r = reserve_addresses(call.link(), call.context_id(), token.bytes, 0, at)) return r;
  Device* d = call.context()->device;
  CUresult r = request_memory(d, call.context(), Attempt::waits, [&](bool asks) {
    wire::Encoder<> e(wire::Op::ipc_open, call.context_id());
    e.put(call.reply_id()).put(token).put(d->remote).put<uint32_t>(asks).put(at);
    call.send_and_wait(e.finish(), e.size());
    return call.status();
  });
  if (r) {
    cuMemAddressFree(at, token.bytes);
    return r;
  }
  *out = at + token.offset;
  session()->addresses.add(
      {Region::mapped, *out, token.bytes - token.offset, 0, call.context(), 0});
  MutexLock lock(opened_memory().mutex);
  opened_memory().by_address[*out] = {
      at, token.bytes, call.link(), call.context(), call.context()->generation, token, 1};
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
    MutexLock lock(opened_memory().mutex);
    auto it = opened_memory().by_address.find(p);
    if (it == opened_memory().by_address.end()) return CUDA_ERROR_INVALID_VALUE;
    if (--it->second.opens) return CUDA_SUCCESS;
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

API CUresult cuIpcGetEventHandle(CUipcEventHandle* out, CUevent h) {
  if (!h || !out) return CUDA_ERROR_INVALID_VALUE;
  REQUIRE_EVENT(e, h);
  if (!e->shared()) return CUDA_ERROR_INVALID_HANDLE;
  Link* link = e->context->device->link;
  uint64_t id = link->next_id();
  wire::Encoder<> r(wire::Op::ipc_export_event, e->context->id);
  r.put(id).put(e->id);
  Reply reply = link->call(id, r.finish(), r.size());
  wire::Decoder d(reply.body.data(), reply.body.size());
  if (reply.status) return (CUresult)reply.status;
  auto token = d.get<wire::IpcToken>();
  std::memcpy(out, &token, sizeof token);
  return CUDA_SUCCESS;
}

// The session server opens the event, and then gives it the id of the event that is created here.
API CUresult cuIpcOpenEventHandle(CUevent* out, CUipcEventHandle handle) {
  Call call;
  if (CUresult r = call.begin(kNoStreamHandle)) return r;
  wire::IpcToken token;
  std::memcpy(&token, &handle, sizeof token);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (std::memcmp(token.magic, wire::kIpcEventMagic, sizeof token.magic))
    return CUDA_ERROR_MAP_FAILED;
  if (call.link()->is_session(token.session)) return CUDA_ERROR_INVALID_CONTEXT;
  uint32_t id = session()->next_id++;
  wire::Encoder<> e(wire::Op::ipc_open_event, call.context_id());
  e.put(call.reply_id()).put(id).put(token);
  call.send_and_wait(e.finish(), e.size());
  if (call.status()) return call.status();
  return create_event(call.context(), id, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS, out);
}
