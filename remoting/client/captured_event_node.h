// Event nodes that a captured stream adds with CU_EVENT_RECORD_EXTERNAL or CU_EVENT_WAIT_EXTERNAL.
//
// Thread safety: any thread.
#pragma once
#include <cuda.h>

namespace busbar::client {

// Adds a node that records the event or waits for it, visible to streams outside of the graph,
// behind the captured work of a stream.
CUresult add_captured_event_node(CUstream stream, CUevent event, bool record);

}  // namespace busbar::client
