// The parts of the executor that a handler may use, and the session.
//
// Thread safety: executor thread only, apart from the members of `session` that permit more, and
// Worker::post().
#pragma once
#include <cstdint>
#include <map>

#include "server/fence_recorder.h"
#include "server/record.h"
#include "server/session.h"
#include "server/stream_queue.h"
#include "server/worker.h"

namespace busbar::server {

// A host function of the program that the client runs now.
struct HostFunctionCall {
  uint32_t stream = 0;  // held until the function has ended
  uint64_t position = 0;
};

struct Pipeline {
  Session& session;
  StreamQueues& queues;
  FenceRecorder& fences;
  Workers& workers;
  std::map<uint64_t, HostFunctionCall> host_functions;  // by the client's id
  bool leaving = false;                                 // the client ended the session
};

}  // namespace busbar::server
