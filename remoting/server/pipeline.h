// The parts of the executor that a handler may use, and the session.
//
// Thread safety: executor thread only, apart from the members of `session` that permit more, and
// Worker::post().
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>

#include "server/fence_recorder.h"
#include "server/record.h"
#include "server/record_parts.h"
#include "server/session.h"
#include "server/stream_queue.h"
#include "server/worker.h"

namespace busbar::server {

// A host function of the program that the client runs now.
struct HostFunctionCall {
  uint32_t stream = 0;  // held until the function has ended
  uint64_t position = 0;
};

// A context that is made when the launcher has answered its charge.
struct ContextRequest {
  uint64_t reply = 0;
  uint32_t id = 0, device = 0, legacy = 0;
  std::shared_ptr<std::atomic<bool>> charged;  // the answer has arrived
};

struct Pipeline {
  Session& session;
  StreamQueues& queues;
  FenceRecorder& fences;
  Workers& workers;
  std::map<uint64_t, HostFunctionCall> host_functions;  // by the client's id
  bool leaving = false;                                 // the client ended the session
  std::deque<ContextRequest> contexts;                  // oldest first
  RecordParts parts;
  bool keeps_work = false;  // records with work of the GPU wait for the end of a suspension
};

inline bool has_charged_context(const Pipeline& p) {
  return !p.contexts.empty() && *p.contexts.front().charged;
}

// Makes the contexts whose charge has been answered, and replies. Defined in streams.cc.
void make_charged_contexts(Pipeline& p);

}  // namespace busbar::server
