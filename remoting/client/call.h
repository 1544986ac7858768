// One CUDA call in progress: its context, stream and link, and the exchange with the node.
//
// Thread safety: a Call belongs to the thread that executes the CUDA function. begin() and send()
// are on the launch path: without captures and host mirrors they take no lock, allocate nothing and
// make no system call.
#pragma once
#include <cuda.h>

#include "client/capture.h"
#include "client/context.h"
#include "client/host_mirror.h"
#include "client/session.h"
#include "client/stream_handle.h"

namespace busbar::client {

inline const CUstream kNoStreamHandle = (CUstream)~0ull;            // a call without a stream
constexpr uint64_t kMaxElements = wire::kMaxListElements;           // of an array argument
constexpr uint32_t kMaxArrayBytes = wire::kMaxPayloadBytes - 1024;  // of all arrays of a call

// Checks a stream before work is submitted to it. Two loads while nothing is captured.
inline CUresult check_stream_capture(Stream& s) {
  bool affected = s.legacy ? s.context->capturing_streams.load(std::memory_order_relaxed) > 0
                           : s.capturing.load(std::memory_order_relaxed);
  return affected ? refuse_in_capture(s) : CUDA_SUCCESS;
}

class Call {
 public:
  // Finds the current context and the stream; fails with the sticky error of the link. Sends the
  // changes of host mirrors, which may block.
  CUresult begin(CUstream stream) {
    if (CUresult r = require_context(context_)) return r;
    link_ = context_->device->link;
    if (stream == kNoStreamHandle) return CUDA_SUCCESS;
    stream_ = find_stream(stream, context_);
    if (!stream_) return CUDA_ERROR_INVALID_HANDLE;
    if (has_host_mirrors())
      if (CUresult r = flush_host_mirrors(*stream_)) return r;
    return check_stream_capture(*stream_);
  }
  // For calls that need no context: selects the node of the current context, or the first node.
  CUresult begin_without_context();

  uint32_t context_id() const { return context_ ? context_->id : 0; }
  uint32_t stream_id() const { return stream_ ? stream_->id : wire::kNoStream; }
  uint64_t reply_id() { return id_ = link_->next_id(); }

  // ---- selection of the node ----
  // Return whether device memory is on the node of this call. Needs no lookup with a single node.
  bool on_link(CUdeviceptr p) const {
    if (session()->links.size() == 1) return true;
    Region r = session()->addresses.find(p);
    return !r.on_device() || r.context->device->link == link_;
  }
  // Moves the call to the node of a device address. If this is not the node of the stream, waits
  // for the stream's work, and send() waits for the call, which keeps the order of the stream.
  CUresult move_to_node_of(CUdeviceptr p);
  bool moved() const { return moved_; }
  // Moves the call to the node and context of an object. Returns false for an unknown object.
  bool select_node_of(ObjectKind kind, uint64_t value);
  // The same, with the driver's error for an unknown object.
  CUresult require_object(ObjectKind kind, uint64_t value) {
    return select_node_of(kind, value) ? CUDA_SUCCESS : invalid_object_error(kind);
  }

  // ---- handles to the ids of the session server ----
  CUresult function(CUfunction h, uint32_t& id);
  CUresult event(CUevent h, uint32_t& id);
  CUresult context(CUcontext h, uint32_t& id);  // null: the current one
  CUresult device(CUdevice ordinal, uint32_t& id);

  // ---- registry of driver objects ----
  void add_object(ObjectKind kind, uint64_t value, uint64_t owner = 0) {
    session()->objects.add(kind, value, owner, {link_, context_});
  }
  Objects<ObjectHome>::Removed remove_object(ObjectKind kind, uint64_t value) {
    return session()->objects.remove(kind, value);
  }
  void restore_objects(Objects<ObjectHome>::Removed removed) {
    session()->objects.restore(std::move(removed));
  }

  // ---- exchange ----
  // Waits for all work of the context, if there is one.
  CUresult drain() { return context_ ? synchronize(context_) : CUDA_SUCCESS; }
  // Submits a record that has no reply. Work of a captured stream is a node of its graph and does
  // not advance the stream.
  CUresult send(const uint8_t* record, uint32_t bytes) {
    uint64_t at = link_->submit(record, bytes);
    if (!at) return link_->error();
    if (stream_ && !stream_->capturing.load(std::memory_order_relaxed))
      record_submission(stream_, at);
    return stream_ && moved_ ? wait_for(stream_, at) : CUDA_SUCCESS;
  }
  // Submits a record that contains reply_id() and waits for the reply. The decoder is valid as long
  // as this object; status() is the result.
  wire::Decoder send_and_wait(const uint8_t* record, uint32_t bytes) {
    reply_ = link_->call(id_, record, bytes);
    return wire::Decoder(reply_.body.data(), reply_.body.size());
  }
  CUresult status() const { return (CUresult)reply_.status; }

  Context* context() const { return context_; }
  Stream* stream() const { return stream_; }
  Link* link() const { return link_; }

 private:
  Context* context_ = nullptr;
  Stream* stream_ = nullptr;
  Link* link_ = nullptr;
  uint64_t id_ = 0;
  bool moved_ = false;
  Reply reply_;
};

}  // namespace busbar::client
