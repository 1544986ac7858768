// Requests that add a graph node or change its parameters.
//
// Thread safety: all functions may be called from any thread.
#pragma once
#include "client/call.h"
#include "wire/growing_encoder.h"

namespace busbar::client {

enum class NodeChange : uint32_t { add = 0, set = 1, exec_set = 2 };

// The node that a request creates or changes.
struct NodeTarget {
  NodeChange change;
  // add: the graph and the nodes on which the new one depends.
  CUgraph graph = nullptr;
  const CUgraphNode* dependencies = nullptr;
  size_t count = 0;
  CUgraphExec exec = nullptr;  // exec_set: the executable graph
  CUgraphNode node = nullptr;  // set and exec_set
};
inline NodeTarget existing_node(CUgraphNode n) {
  NodeTarget t{NodeChange::set};
  t.node = n;
  return t;
}
inline NodeTarget existing_node(CUgraphExec e, CUgraphNode n) {
  NodeTarget t{NodeChange::exec_set};
  t.exec = e;
  t.node = n;
  return t;
}

using NodeEncoder = wire::GrowingEncoder;

// Begins the call on the node of the target and checks its graph and nodes.
CUresult begin_node_request(Call& call, const NodeTarget& t);
void put_target(NodeEncoder& e, const NodeTarget& t);
// Sends the request. The reply to an added node is its handle in `out`; `rest` decodes
// the remaining reply.
CUresult finish_node_request(Call& call, NodeEncoder& e, const NodeTarget& t, CUgraphNode* out,
                             wire::Decoder* rest = nullptr);
// Queries a node; `reply` is valid as long as `call`.
CUresult query_node(Call& call, wire::Op op, CUgraphNode n, wire::Decoder& reply);

}  // namespace busbar::client
