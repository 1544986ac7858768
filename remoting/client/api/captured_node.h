// Nodes that a call on a captured stream adds to the graph itself.
//
// Thread safety: any thread. Another thread may end the capture meanwhile.
#pragma once
#include <cuda.h>

#include <functional>
#include <vector>

namespace busbar::client {

struct Capture;
struct Context;
struct Stream;

struct CapturedNodes {
  CUgraph graph = nullptr;
  std::vector<CUgraphNode> nodes;  // the newest ones
};
// Asks the node for the graph of a capture and the newest nodes of a stream in it. The graph is
// null if another thread has ended the capture.
CUresult query_captured_nodes(Context* c, const Stream& s, const Capture& capture,
                              CapturedNodes& out);

using AddNode =
    std::function<CUresult(CUgraphNode* out, CUgraph, const CUgraphNode* after, size_t count)>;

// Calls `add` for a node behind the newest nodes of a captured stream, and makes it the newest one.
CUresult add_captured_node(CUstream stream, const AddNode& add);
// A node that records an event or waits for it.
CUresult add_captured_event_node(CUstream stream, CUevent event, bool record);

}  // namespace busbar::client
