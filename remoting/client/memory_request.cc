#include "client/memory_request.h"

#include "client/context.h"
#include "client/device.h"

namespace busbar::client {

namespace {
// Returns false if there are no unused leases. The node handles returns and some of the requests on
// different threads; its reply to a query comes after the returns.
bool return_unused_leases(Device* d, Context* c) {
  if (!d->heap) return false;
  d->link->poll_frames();  // completions may free memory
  auto drain = [c] {
    if (c) synchronize(c);
  };
  if (!d->heap->return_unused(drain)) return false;
  uint64_t id = d->link->next_id();
  wire::Encoder<> e(wire::Op::memory_info, 0);
  e.put(id).put(d->remote);
  return !d->link->call(id, e.finish(), e.size()).status;
}
}  // namespace

Reply request_memory(Device* d, Context* c, const std::function<Reply()>& send) {
  Reply reply = send();
  bool again = reply.status == CUDA_ERROR_OUT_OF_MEMORY && return_unused_leases(d, c);
  return again ? send() : reply;
}

CUresult create_physical_memory(Device* d, Context* c, uint64_t bytes,
                                CUmemGenericAllocationHandle& handle) {
  uint64_t id = d->link->next_id();
  wire::Encoder<> e(wire::Op::create_memory, c ? c->id : 0);
  e.put(id).put((uint64_t)d->remote).put(bytes);
  Reply reply = request_memory(d, c && c->device == d ? c : nullptr,
                               [&] { return d->link->call(id, e.finish(), e.size()); });
  wire::Decoder in(reply.body.data(), reply.body.size());
  if (!reply.status) handle = in.get<uint64_t>();
  return (CUresult)reply.status;
}

}  // namespace busbar::client
