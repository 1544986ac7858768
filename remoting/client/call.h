// What the generated stubs share: the current context, the stream, submission and answers.
#pragma once
#include "client/session.h"

namespace busbar::client {

inline const CUstream kNoStreamHandle = (CUstream)~0ull;

class Call {
 public:
  // Finds context and stream and checks the sticky error.
  CUresult begin(CUstream stream) {
    if (CUresult r = require_context(context_)) return r;
    if (stream == kNoStreamHandle) return CUDA_SUCCESS;
    stream_ = stream_of(stream, context_);
    return stream_ ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  }
  uint32_t context_id() const { return context_->id; }
  uint32_t stream_id() const { return stream_ ? stream_->id : wire::kNoStream; }
  uint64_t reply_id() { return id_ = link()->next_id(); }
  // With one node, the usual case, nothing is looked up.
  bool on_link(CUdeviceptr p) const {
    if (session()->links.size() == 1) return true;
    Region r = session()->addresses.find(p);
    return r.kind == Region::none || r.context->device->link == link();
  }
  // The address decides where a call happens. On another node than the stream's, it happens in order because both are waited for.
  CUresult follow(CUdeviceptr p) {
    Region r = session()->addresses.find(p);
    if (r.kind == Region::none) return CUDA_ERROR_INVALID_VALUE;
    if (r.context->device->link == link()) return CUDA_SUCCESS;
    if (stream_) if (CUresult e = wait_for(stream_, stream_->progress.last.load())) return e;
    context_ = r.context;
    if (stream_) stream_ = &r.context->legacy;
    elsewhere_ = true;
    return link()->error();
  }
  bool elsewhere() const { return elsewhere_; }
  uint32_t function(CUfunction f) { CUresult e; Function* o = function_of(f, e); return o ? o->id : 0; }

  CUresult fire(const uint8_t* record, uint32_t bytes) {
    uint64_t at = link()->submit(record, bytes);
    if (!at) return link()->error();
    if (stream_) submitted(stream_, at);
    return stream_ && elsewhere_ ? wait_for(stream_, at) : CUDA_SUCCESS;
  }
  // Valid as long as this object.
  wire::Decoder answer(const uint8_t* record, uint32_t bytes) {
    answer_ = link()->ask(id_, record, bytes);
    return wire::Decoder(answer_.body.data(), answer_.body.size());
  }
  CUresult status() const { return (CUresult)answer_.status; }
  Context* context() const { return context_; }
  Stream* stream() const { return stream_; }
  Link* link() const { return context_->device->link; }

 private:
  Context* context_ = nullptr;
  Stream* stream_ = nullptr;
  uint64_t id_ = 0;
  bool elsewhere_ = false;
  Answer answer_;
};

CUresult send_in(Context* c, CUdeviceptr to, const void* from, size_t bytes);                          // memory.cc: on the legacy stream; the bytes are taken
CUresult copy_between_nodes(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);         // peer.cc

}  // namespace busbar::client
