#include "client/device_memory.h"

#include <algorithm>

#include "client/context.h"
#include "client/session.h"

namespace busbar::client {

Heap::Done submitted_work_done(Context* c) {
  std::vector<std::pair<StreamRef, uint64_t>> pending;
  for (auto& s : streams_with_work(c)) {
    uint64_t last = s->progress.last.load();
    if (s->progress.completed.load() < last) pending.emplace_back(s, last);
  }
  return [pending] {
    return std::all_of(pending.begin(), pending.end(),
                       [](auto& p) { return p.first->progress.reached(p.second); });
  };
}

CUresult allocate_device_memory(Context* c, uint64_t bytes, uint64_t& at, Attempt attempt) {
  Device* d = c->device;
  d->link->poll_frames();  // completions may free memory
  std::function<void()> drain;
  if (attempt == Attempt::waits)
    drain = [c] {
      synchronize(c);
    };
  if (d->heap) return d->heap->allocate(bytes, drain, at, attempt != Attempt::first);
  uint64_t id = d->link->next_id();
  wire::Encoder<> e(wire::Op::allocate, c->id);
  e.put(id).put(d->remote).put<uint32_t>(0).put(bytes);
  Reply reply = d->link->call(id, e.finish(), e.size());
  wire::Decoder in(reply.body.data(), reply.body.size());
  if (!reply.status) at = in.get<uint64_t>();
  return (CUresult)reply.status;
}

CUresult release_device_memory(const Region& r, Heap::Done done) {
  Device* d = r.context->device;
  d->link->poll_frames();
  if (d->heap) {
    d->heap->release(r.base, r.bytes, std::move(done),
                     d->link->partition_size(d->remote).is_exceeded);
    return d->link->error();
  }
  wire::Encoder<> e(wire::Op::release, r.context->id);
  e.put(r.base);
  d->link->submit(e.finish(), e.size());
  return d->link->error();
}

CUresult submit_upload(Context* c, Stream* s, CUdeviceptr to, const void* from, size_t bytes) {
  Link* link = c->device->link;
  for (size_t done = 0; done < bytes;) {
    uint64_t n = bytes - done <= wire::kMaxInlineBytes
                     ? bytes - done
                     : std::min<uint64_t>(bytes - done, wire::kCopyPieceBytes);
    const char* at = (const char*)from + done;
    bool inlined = n <= wire::kMaxInlineBytes;
    uint64_t transfer = inlined                      ? 0
                        : link->uses_shared_memory() ? link->write_shared_chunk(at, n)
                                                     : link->upload(at, n);
    if (!inlined && !transfer) return link->error();
    wire::Encoder<wire::kMaxInlineBytes + 64> e(wire::Op::copy_in, c->id, s->id);
    e.put((uint64_t)to + done).put(n).put(transfer);
    if (inlined) e.raw(at, (uint32_t)n);
    uint64_t position = link->submit(e.finish(), e.size());
    if (!position) return link->error();
    record_submission(s, position);
    done += n;
  }
  return CUDA_SUCCESS;
}

CUresult submit_upload(Context* c, CUdeviceptr to, const void* from, size_t bytes) {
  return submit_upload(c, &c->legacy, to, from, bytes);
}

CUresult submit_download(Context* c, Stream* s, void* to, CUdeviceptr from, size_t bytes,
                         uint64_t& position) {
  Link* link = c->device->link;
  wire::Encoder<> e(wire::Op::copy_out, c->id, s->id);
  e.put((uint64_t)from).put((uint64_t)bytes).put(link->expect_transfer(to, bytes));
  position = link->submit(e.finish(), e.size());
  if (!position) return link->error();
  record_submission(s, position);
  return CUDA_SUCCESS;
}

CUresult submit_download(Context* c, void* to, CUdeviceptr from, size_t bytes, uint64_t& position) {
  return submit_download(c, &c->legacy, to, from, bytes, position);
}

}  // namespace busbar::client
