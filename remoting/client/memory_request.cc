#include "client/memory_request.h"

#include "client/context.h"
#include "client/device.h"

namespace busbar::client {

namespace {
// Returns false if there are no unused leases. The node handles returns and some of the requests on
// different threads; its reply to a query comes after the returns.
bool return_unused_leases(Device* d) {
  if (!d->heap) return false;
  d->link->poll_frames();  // completions may free memory
  if (!d->heap->return_unused()) return false;
  uint64_t id = d->link->next_id();
  wire::Encoder<> e(wire::Op::memory_info, 0);
  e.put(id).put(d->remote);
  return !d->link->call(id, e.finish(), e.size()).status;
}
}  // namespace

CUresult request_memory(Device* d, Context* c, const MemoryRequest& send) {
  CUresult r = send(false);
  if (r == CUDA_ERROR_OUT_OF_MEMORY && return_unused_leases(d)) r = send(false);
  if (r == CUDA_ERROR_OUT_OF_MEMORY && c && wait_for_freed_memory(c) && return_unused_leases(d))
    r = send(false);
  return r == CUDA_ERROR_OUT_OF_MEMORY ? send(true) : r;
}

bool wait_for_freed_memory(Context* c) {
  Heap* heap = c->device->heap.get();
  return heap && heap->pending(heap->freed()) && !synchronize(c);
}

CUresult create_physical_memory(Device* d, Context* c, bool may_wait, uint64_t bytes,
                                CUmemGenericAllocationHandle& handle) {
  Context* waits = may_wait && c && c->device == d ? c : nullptr;
  return request_memory(d, waits, [&](bool asks) {
    uint64_t id = d->link->next_id();
    wire::Encoder<> e(wire::Op::create_memory, c ? c->id : 0);
    e.put(id).put(d->remote).put<uint32_t>(asks).put(bytes);
    Reply reply = d->link->call(id, e.finish(), e.size());
    wire::Decoder in(reply.body.data(), reply.body.size());
    if (!reply.status) handle = in.get<uint64_t>();
    return (CUresult)reply.status;
  });
}

}  // namespace busbar::client
