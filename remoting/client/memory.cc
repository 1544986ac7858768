// Device memory, pinned memory, copies and pointer queries.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "client/copy.h"

using namespace busbar;
using namespace busbar::client;

#define CURRENT(c) \
  Context* c;      \
  if (CUresult r = require_context(c)) return r
#define SAFE \
  if (CUresult r = unsafe_in_capture()) return r

// ---- allocation ----
// Everything that may touch a freed range is what is submitted now: the range waits for these
// places.
Heap::Done busbar::client::all_work_done(Context* c) {
  std::vector<std::pair<StreamRef, uint64_t>> places;
  auto note = [&](const StreamRef& s) {
    uint64_t last = s->progress.last.load();
    if (s->progress.completed.load() < last) places.emplace_back(s, last);
  };
  note(kept(&c->legacy));
  {
    std::lock_guard lock(c->mutex);
    for (auto& s : c->streams) note(s);
  }
  return [places] {
    return std::all_of(places.begin(), places.end(), [](auto& p) {
      return p.first->progress.completed.load(std::memory_order_acquire) >= p.second;
    });
  };
}

CUresult busbar::client::allocate_device(Context* c, uint64_t bytes, uint64_t& at) {
  Device* d = c->device;
  d->link->glance();  // frees may be done
  if (d->heap) return d->heap->allocate(bytes, [c] { synchronize(c); }, at);
  uint64_t id = d->link->next_id();
  wire::Encoder<> e(wire::Op::allocate, c->id);
  e.put(id).put(d->remote).put<uint32_t>(0).put(bytes);
  Answer a = d->link->ask(id, e.finish(), e.size());
  wire::Decoder in(a.body.data(), a.body.size());
  if (!a.status) at = in.get<uint64_t>();
  return (CUresult)a.status;
}

CUresult busbar::client::release_device(const Region& r, Heap::Done done) {
  Device* d = r.context->device;
  d->link->glance();
  if (d->heap) {
    d->heap->release(r.base, r.bytes, std::move(done));
    return d->link->error();
  }
  wire::Encoder<> e(wire::Op::release, r.context->id);  // the node waits for whatever is parked
  e.put(r.base);
  d->link->submit(e.finish(), e.size());
  return d->link->error();
}

API CUresult cuMemAlloc(CUdeviceptr* out, size_t bytes) {
  CURRENT(c);
  SAFE;
  if (!out || !bytes) return CUDA_ERROR_INVALID_VALUE;
  uint64_t at = 0;
  if (CUresult r = allocate_device(c, bytes, at)) return r;
  session()->addresses.add({Region::device, at, bytes, 0, c, 0});
  *out = at;
  return CUDA_SUCCESS;
}

API CUresult cuMemAllocPitch(CUdeviceptr* out, size_t* pitch, size_t width, size_t height,
                             unsigned element) {
  if (!out || !pitch || !width || !height || (element != 4 && element != 8 && element != 16))
    return CUDA_ERROR_INVALID_VALUE;
  *pitch = (width + 511) & ~(size_t)511;
  return cuMemAlloc(out, *pitch * height);
}

API CUresult cuMemFree(CUdeviceptr p) {
  if (!session()) return CUDA_ERROR_DEINITIALIZED;
  SAFE;
  if (!p) return CUDA_SUCCESS;
  CUresult status;
  if (mirrored() && free_managed(p, status)) return status;
  Region r;
  if (!session()->addresses.remove(p, Region::device, &r)) return CUDA_ERROR_INVALID_VALUE;
  Heap::Done done = all_work_done(r.context);
  forget_pool_memory(p, done);
  return release_device(r, std::move(done));
}

API CUresult cuMemGetInfo(size_t* free, size_t* total) {
  CURRENT(c);
  if (!free || !total) return CUDA_ERROR_INVALID_VALUE;
  Device* d = c->device;
  uint64_t id = d->link->next_id();
  wire::Encoder<> e(wire::Op::memory_info, c->id);
  e.put(id).put(d->remote);
  Answer a = d->link->ask(id, e.finish(), e.size());
  if (a.status) return (CUresult)a.status;
  wire::Decoder in(a.body.data(), a.body.size());
  uint64_t limit = in.get<uint64_t>(), leased = in.get<uint64_t>();
  uint64_t used = leased;
  if (d->heap)
    used = leased - std::min(leased, d->heap->leased_bytes()) +
           d->heap->allocated_bytes();  // what we leased and do not use is free to us
  *total = limit;
  *free = limit - std::min(limit, used);
  return in.ok() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

// ---- host memory ----
API CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned flags) {
  CURRENT(c);
  SAFE;
  if (!out || !bytes || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  session()->addresses.add({Region::pinned, (uint64_t)p, bytes, 0, c, flags});
  *out = p;
  return CUDA_SUCCESS;
}
API CUresult cuMemAllocHost(void** out, size_t bytes) {
  return cuMemHostAlloc(out, bytes, 0);
}

API CUresult cuMemFreeHost(void* p) {
  if (!session()) return CUDA_ERROR_DEINITIALIZED;
  SAFE;
  Region r;
  if (!session()->addresses.remove((uint64_t)p, Region::pinned, &r))
    return CUDA_ERROR_INVALID_VALUE;
  for (Context* c : session()->contexts.all())
    synchronize(c);  // bytes may still be on their way into it
  forget_mapped(p);
  munmap(p, r.bytes);
  return CUDA_SUCCESS;
}

API CUresult cuMemHostRegister(void* p, size_t bytes, unsigned flags) {
  CURRENT(c);
  if (!p || !bytes || flags > 15) return CUDA_ERROR_INVALID_VALUE;
  if (session()->addresses.find((uint64_t)p).kind != Region::none)
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  session()->addresses.add({Region::registered, (uint64_t)p, bytes, 0, c, flags});
  return CUDA_SUCCESS;
}

API CUresult cuMemHostUnregister(void* p) {
  if (!session()) return CUDA_ERROR_DEINITIALIZED;
  Region r;
  if (!session()->addresses.remove((uint64_t)p, Region::registered, &r))
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  CUresult status = synchronize(r.context);
  if (!status && mirrored()) status = fetch_mapped(r.context);
  forget_mapped(p);
  return status;
}

API CUresult cuMemHostGetFlags(unsigned* flags, void* p) {
  CURRENT(c);
  (void)c;
  Region r = session()->addresses.find((uint64_t)p);
  if (!flags || r.kind != Region::pinned) return CUDA_ERROR_INVALID_VALUE;
  *flags = r.flags;
  return CUDA_SUCCESS;
}

API CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr p) {
  CURRENT(c);
  (void)c;
  Region r = session()->addresses.find(p);
  if (r.kind == Region::none) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = r.base;
  if (bytes) *bytes = r.bytes;
  return CUDA_SUCCESS;
}

// ---- copies ----
// Submits the bytes in pieces; each is inline or goes over the bulk connection. They are taken when
// this returns.
static CUresult submit_in(Context* c, Stream* s, CUdeviceptr to, const void* from, size_t bytes) {
  Link* link = c->device->link;
  for (size_t done = 0; done < bytes;) {
    uint64_t n = bytes - done <= wire::kMaxInlineBytes
                     ? bytes - done
                     : std::min<uint64_t>(bytes - done, wire::kPieceBytes);
    const char* at = (const char*)from + done;
    bool inlined = n <= wire::kMaxInlineBytes;
    uint64_t transfer = inlined                  ? 0
                        : link->on_one_machine() ? link->lay_out(at, n)
                                                 : link->upload(at, n);
    if (!inlined && !transfer) return link->error();
    wire::Encoder<wire::kMaxInlineBytes + 64> e(wire::Op::copy_in, c->id, s->id);
    e.put((uint64_t)to + done).put(n).put(transfer);
    if (inlined) e.raw(at, (uint32_t)n);
    uint64_t position = link->submit(e.finish(), e.size());
    if (!position) return link->error();
    submitted(s, position);
    done += n;
  }
  return CUDA_SUCCESS;
}

CUresult busbar::client::send_in(Context* c, CUdeviceptr to, const void* from, size_t bytes) {
  return submit_in(c, &c->legacy, to, from, bytes);
}

// In a capture a copy is a node, and its host side a buffer of the node's.
static CUresult capture_flat(CUdeviceptr device, const void* host, size_t bytes, bool in,
                             CUstream stream) {
  CUDA_MEMCPY3D p{};
  (in ? p.srcMemoryType : p.dstMemoryType) = CU_MEMORYTYPE_HOST;
  (in ? p.dstMemoryType : p.srcMemoryType) = CU_MEMORYTYPE_DEVICE;
  (in ? p.dstDevice : p.srcDevice) = device;
  if (in)
    p.srcHost = host;
  else
    p.dstHost = (void*)host;
  p.WidthInBytes = bytes;
  p.Height = p.Depth = 1;
  return copy_rows(p, stream, false);
}

// The other side of a "host" copy may be managed memory, which lies on the device too.
static bool managed(const void* p) {
  return mirrored() && session() && session()->addresses.find((uint64_t)p).kind == Region::managed;
}

static CUresult copy_in(CUdeviceptr to, const void* from, size_t bytes, CUstream stream,
                        bool synchronous) {
  if (synchronous) SAFE;
  if (managed(from)) return cuMemcpyDtoDAsync_v2(to, (CUdeviceptr)from, bytes, stream);
  Call call;
  if (CUresult r = call.begin(stream)) return r;
  if (!from && bytes) return CUDA_ERROR_INVALID_VALUE;
  if (!session()->addresses.device_range(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (call.stream()->capturing) return capture_flat(to, from, bytes, true, stream);
  if (CUresult r = settle_host_functions(call)) return r;
  if (bytes && !call.on_link(to))
    if (CUresult r = call.follow(to)) return r;
  if (CUresult r = submit_in(call.context(), call.stream(), to, from, bytes)) return r;
  // The bytes are taken. Later work on blocking streams is ordered behind the copy; on others only
  // a wait orders it.
  bool must_wait =
      call.elsewhere() || (synchronous && call.context()->non_blocking_streams.load() > 0);
  return must_wait ? wait_for(call.stream(), call.stream()->progress.last.load()) : CUDA_SUCCESS;
}

static CUresult copy_out(void* to, CUdeviceptr from, size_t bytes, CUstream stream,
                         bool synchronous) {
  if (synchronous) SAFE;
  if (managed(to)) return cuMemcpyDtoDAsync_v2((CUdeviceptr)to, from, bytes, stream);
  Call call;
  if (CUresult r = call.begin(stream)) return r;
  if (!to && bytes) return CUDA_ERROR_INVALID_VALUE;
  if (!session()->addresses.device_range(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (call.stream()->capturing) return capture_flat(from, to, bytes, false, stream);
  if (bytes) {
    if (!call.on_link(from))
      if (CUresult r = call.follow(from)) return r;
    wire::Encoder<> e(wire::Op::copy_out, call.context_id(), call.stream_id());
    e.put((uint64_t)from).put((uint64_t)bytes).put(call.link()->expect(to, bytes));
    if (CUresult r = call.fire(e.finish(), e.size())) return r;
  }
  bool pinned = session()->addresses.find((uint64_t)to).on_host();
  return synchronous || !pinned ? wait_for(call.stream(), call.stream()->progress.last.load())
                                : CUDA_SUCCESS;
}

API CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t n) {
  return copy_in(to, from, n, nullptr, true);
}
API CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t n, CUstream s) {
  return copy_in(to, from, n, s, false);
}
API CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t n) {
  return copy_out(to, from, n, nullptr, true);
}
API CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t n, CUstream s) {
  return copy_out(to, from, n, s, false);
}
