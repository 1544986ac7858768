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

CUresult request_memory(Device* d, Context* c, Attempt attempt, const MemoryRequest& send) {
  CUresult r = send(false);
  if (r == CUDA_ERROR_OUT_OF_MEMORY && return_unused_leases(d)) r = send(false);
  if (r == CUDA_ERROR_OUT_OF_MEMORY && attempt == Attempt::waits) {
    wait_for_freed_memory(c);
    if (return_unused_leases(d)) r = send(false);
  }
  return r == CUDA_ERROR_OUT_OF_MEMORY && attempt != Attempt::first ? send(true) : r;
}

void wait_for_freed_memory(Context* c) {
  Heap* heap = c->device->heap.get();
  if (heap && heap->pending(heap->freed())) synchronize(c);
}

CUresult create_physical_memory(Device* d, Context* c, Attempt attempt, uint64_t bytes,
                                CUmemGenericAllocationHandle& handle) {
  bool has_work = c && c->device == d;
  if (attempt == Attempt::waits && !has_work) attempt = Attempt::last;
  return request_memory(d, c, attempt, [&](bool asks) {
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
