// Nodes that a call on a captured stream adds to the graph itself.
//
// Thread safety: any thread; the stream must not be used by another one.
#pragma once
#include <cuda.h>

#include <functional>

namespace busbar::client {

using AddNode =
    std::function<CUresult(CUgraphNode* out, CUgraph, const CUgraphNode* after, size_t count)>;

// Calls `add` for a node behind the newest nodes of a captured stream, and makes it the newest one.
CUresult add_captured_node(CUstream stream, const AddNode& add);
// A node that records an event or waits for it.
CUresult add_captured_event_node(CUstream stream, CUevent event, bool record);

}  // namespace busbar::client
