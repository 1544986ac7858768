// The third stage of the executor: runs a record whose dependencies are met.
//
// Thread safety: executor thread only.
#pragma once
#include "server/pipeline.h"

namespace busbar::server {

// Runs a stream record or a barrier record. A stream that was destroyed meanwhile is no error.
Outcome submit(Pipeline& p, Record& r);
// Runs a session handler or a generated call with a reply, on the thread of its operation.
void run_in_session(Pipeline& p, const Record& r);

}  // namespace busbar::server
