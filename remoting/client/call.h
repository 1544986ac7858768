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
  bool device_pointer(CUdeviceptr p) const { return session()->addresses.find(p).kind != Region::none; }
  uint32_t function(CUfunction f) { CUresult e; Function* o = function_of(f, e); return o ? o->id : 0; }

  CUresult fire(const uint8_t* record, uint32_t bytes) {
    uint64_t at = link()->submit(record, bytes);
    if (!at) return link()->error();
    if (stream_) submitted(stream_, at);
    return CUDA_SUCCESS;
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
  Answer answer_;
};

}  // namespace busbar::client
