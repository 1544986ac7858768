// What the generated stubs share: the current context, the stream, submission and answers.
#pragma once
#include <type_traits>

#include "client/capture.h"
#include "client/mirror.h"
#include "client/session.h"

namespace busbar::client {

inline const CUstream kNoStreamHandle = (CUstream)~0ull;
constexpr uint64_t kMostElements = 4096;  // of an array argument
constexpr uint32_t kLongRequest = wire::kMaxRecordBytes - 1024;

// A call on this stream is about to be submitted. Two loads where nothing is captured.
inline CUresult enter_stream(Stream& s) {
  bool concerned = s.legacy ? s.context->capturing_streams.load(std::memory_order_relaxed) > 0
                            : s.capturing.load(std::memory_order_relaxed);
  return concerned ? refuse_in_capture(s) : CUDA_SUCCESS;
}

class Call {
 public:
  // Finds context and stream and checks the sticky error.
  CUresult begin(CUstream stream) {
    if (CUresult r = require_context(context_)) return r;
    link_ = context_->device->link;
    if (stream == kNoStreamHandle) return CUDA_SUCCESS;
    stream_ = stream_of(stream, context_);
    if (!stream_) return CUDA_ERROR_INVALID_HANDLE;
    if (mirrored())
      if (CUresult r = flush_mirrors(*stream_)) return r;
    return enter_stream(*stream_);
  }
  // For calls that need no context: the current one's node, else the first.
  CUresult begin_anywhere() {
    if (!session()) return CUDA_ERROR_NOT_INITIALIZED;
    context_ = current_context();
    if (context_ && context_->destroyed.load(std::memory_order_relaxed)) context_ = nullptr;
    if (!context_ && session()->devices.empty()) return CUDA_ERROR_NO_DEVICE;
    link_ = context_ ? context_->device->link : session()->devices.front()->link;
    return link_->error();
  }
  uint32_t context_id() const { return context_ ? context_->id : 0; }
  uint32_t stream_id() const { return stream_ ? stream_->id : wire::kNoStream; }
  uint64_t reply_id() { return id_ = link_->next_id(); }
  // With one node, the usual case, nothing is looked up.
  bool on_link(CUdeviceptr p) const {
    if (session()->links.size() == 1) return true;
    Region r = session()->addresses.find(p);
    return r.kind == Region::none || r.context->device->link == link_;
  }
  // The address decides where a call happens. On another node than the stream's, it happens in
  // order because both are waited for.
  CUresult follow(CUdeviceptr p) {
    Region r = session()->addresses.find(p);
    if (!r.on_device()) return CUDA_ERROR_INVALID_VALUE;
    if (r.context->device->link == link_) return CUDA_SUCCESS;
    if (stream_)
      if (CUresult e = wait_for(stream_, stream_->progress.last.load())) return e;
    move_to(r.context);
    elsewhere_ = true;
    return link_->error();
  }
  bool elsewhere() const { return elsewhere_; }

  // Names to what the wire carries.
  CUresult function(CUfunction f, uint32_t& id) {
    CUresult e;
    Function* o = function_of(f, e);
    if (o) id = o->id;
    return e;
  }
  CUresult event(CUevent h, uint32_t& id) {
    Event* e = session()->events.get(h);
    if (!e) return CUDA_ERROR_INVALID_HANDLE;
    id = e->id;
    return CUDA_SUCCESS;
  }
  CUresult context(CUcontext h, uint32_t& id) {
    Context* c = h ? session()->contexts.get(h) : context_;
    if (!c) return CUDA_ERROR_INVALID_CONTEXT;
    id = c->id;
    return CUDA_SUCCESS;
  }
  CUresult device(CUdevice d, uint32_t& id) {
    if (d < 0 || d >= (int)session()->devices.size()) return CUDA_ERROR_INVALID_DEVICE;
    Device* device = session()->devices[(size_t)d].get();
    if (device->link != link_) {
      link_ = device->link;
      context_ = nullptr;
    }
    id = device->remote;
    return CUDA_SUCCESS;
  }
  // An object decides on which node the call happens, and in which context.
  bool known(ObjectKind kind, uint64_t value) {
    Home home = home_of(kind, value);
    if (!home.link) return false;
    if (home.link != link_ || !context_) {
      link_ = home.link;
      context_ = home.context && !home.context->destroyed ? home.context : nullptr;
    }
    return true;
  }
  CUresult use(ObjectKind kind, uint64_t value) {
    return known(kind, value) ? CUDA_SUCCESS : unknown_object(kind);
  }
  void remember(ObjectKind kind, uint64_t value, uint64_t owner = 0) {
    session()->objects.add(kind, value, owner, {link_, context_});
  }
  Objects<Home>::Taken take(ObjectKind kind, uint64_t value) {
    return session()->objects.take(kind, value);
  }
  void put_back(Objects<Home>::Taken taken) { session()->objects.put_back(std::move(taken)); }
  CUresult drain() { return context_ ? synchronize(context_) : CUDA_SUCCESS; }

  CUresult fire(const uint8_t* record, uint32_t bytes) {
    uint64_t at = link_->submit(record, bytes);
    if (!at) return link_->error();
    if (stream_ && !stream_->capturing.load(std::memory_order_relaxed))
      submitted(stream_, at);  // a node of a graph is no work yet
    return stream_ && elsewhere_ ? wait_for(stream_, at) : CUDA_SUCCESS;
  }
  // Valid as long as this object.
  wire::Decoder answer(const uint8_t* record, uint32_t bytes) {
    answer_ = link_->ask(id_, record, bytes);
    return wire::Decoder(answer_.body.data(), answer_.body.size());
  }
  CUresult status() const { return (CUresult)answer_.status; }
  Context* context() const { return context_; }
  Stream* stream() const { return stream_; }
  Link* link() const { return link_; }

 private:
  void move_to(Context* c) {
    context_ = c;
    link_ = c->device->link;
    if (stream_) stream_ = &c->legacy;
  }
  Context* context_ = nullptr;
  Stream* stream_ = nullptr;
  Link* link_ = nullptr;
  uint64_t id_ = 0;
  bool elsewhere_ = false;
  Answer answer_;
};

CUresult settle_host_functions(const Call& call);  // host_function.cc: before host memory is read
// memory.cc: device memory without a place in the address map, and back.
CUresult allocate_device(Context* c, uint64_t bytes, uint64_t& at);
CUresult release_device(const Region& r, Heap::Done done);
Heap::Done all_work_done(Context* c);  // what is submitted now
CUresult reserve_on_both_sides(Link* link, uint32_t context, uint64_t bytes, uint64_t wish,
                               uint64_t& out);          // virtual_memory.cc
bool free_managed(CUdeviceptr p, CUresult& r);          // managed.cc
void forget_pool_memory(uint64_t at, Heap::Done done);  // pool.cc
CUresult send_in(Context* c, CUdeviceptr to, const void* from,
                 size_t bytes);  // memory.cc: on the legacy stream; the bytes are taken
CUresult copy_between_nodes(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                            CUstream stream);  // peer.cc

// What the forms without a stream promise of host memory: it holds what was written when they
// return.
inline CUresult seen_by_host(CUresult r, CUdeviceptr p) {
  return r || !mirrored() || !is_mapped(p) ? r : cuStreamSynchronize(nullptr);
}

}  // namespace busbar::client
