// The third stage of the executor: runs a record whose dependencies are met.
//
// Thread safety: executor thread only.
#pragma once
#include <functional>

#include "server/pipeline.h"

namespace busbar::server {

// Runs a stream record or a barrier record. A stream that was destroyed meanwhile is no error.
Outcome submit(Pipeline& p, Record& r);
// Runs a session handler or a generated call with a reply, on the thread of its operation.
void run_in_session(Pipeline& p, const Record& r);
// Runs `work`, which holds `bytes` bytes, on a helper thread with the current context.
void post(Pipeline& p, Worker& worker, uint64_t bytes, std::function<void()> work);

}  // namespace busbar::server
