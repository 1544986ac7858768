// The last stage of the executor: records completion fences behind submitted work.
//
// The legacy stream of a context and its blocking streams wait for each other in the driver. A
// fence of one must therefore be recorded before later work of the other, or it would complete too
// late.
//
// Thread safety: executor thread only.
#pragma once
#include <vector>

#include "server/completions.h"
#include "server/stream_queue.h"

namespace busbar::server {

class FenceRecorder {
 public:
  FenceRecorder(Session& session, const StreamQueues& queues, Completions& completions)
      : s_(session), queues_(queues), completions_(completions) {}

  // Called before the work of the record at `position` is submitted to a stream. Until end_work(),
  // a fence completes what lies before the record.
  void begin_work(StreamState& st, uint64_t position);
  void end_work(StreamState& st, uint64_t position);
  // Records a fence for everything up to `position`. Fences of other streams that `st` waits for
  // are recorded first.
  void record(StreamState& st, uint64_t position, CompletionFence fence = {});
  // Records a fence on every stream with work behind its newest fence, oldest work first.
  void record_all(const StreamState* except = nullptr);
  // Records a fence if there is work behind the newest one.
  void record_last(StreamState& st);

  // Reports an error of the driver to the client with the next completion.
  void check(CUresult r) {
    if (r) completions_.fail(r);
  }
  // The same; while the stream is captured, the error belongs to the capture.
  void check(CUresult r, StreamState& st) {
    if (!r) return;
    if (!st.capturing)
      completions_.fail(r);
    else if (!st.capture_error)
      st.capture_error = r;
  }
  Completions& completions() { return completions_; }

 private:
  void record_one(StreamState& st, uint64_t position, CompletionFence fence);
  void record_legacy();
  bool open(const StreamState& st) const;
  void list(StreamState& st);
  CUresult take_event(ContextState& c, uint32_t context, CUevent& e);
  CUevent record_event(ContextState& c, StreamState& st);
  Session& s_;
  const StreamQueues& queues_;
  Completions& completions_;
  std::vector<uint32_t> open_;  // streams that may have work behind their newest fence
  bool legacy_open_ = false;    // a legacy stream is among them
};

}  // namespace busbar::server
