// The end of events that sessions share: the GPU may still write or read their pages.
//
// Thread safety: executor thread; no record is parked.
#pragma once
#include "server/event.h"
#include "server/pipeline.h"

namespace busbar::server {

// Ends the shared part of an event when all streams have passed what is submitted now.
void retire_shared(Pipeline& p, EventState& e);
// Posts the end of the events that no stream uses any more to the thread `memory`, because it may
// wait for the GPU.
void end_retired(Pipeline& p);
// Remembers the work of a stream that ends: it may use shared events.
void leave_shared(Pipeline& p, StreamState& st);

}  // namespace busbar::server
