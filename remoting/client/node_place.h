// Where a node goes, and the request that brings it there.
#pragma once
#include "client/call.h"
#include "client/graph.h"

namespace busbar::client {

enum class What : uint32_t { add = 0, set = 1, exec_set = 2 };

// Into a graph behind its dependencies, or in the place of another's parameters.
struct Place {
  What what;
  CUgraph graph = nullptr;
  const CUgraphNode* dependencies = nullptr;
  size_t count = 0;
  CUgraphExec exec = nullptr;
  CUgraphNode node = nullptr;
};
inline Place instead_of(CUgraphNode n) {
  Place p{What::set};
  p.node = n;
  return p;
}
inline Place instead_of(CUgraphExec e, CUgraphNode n) {
  Place p{What::exec_set};
  p.exec = e;
  p.node = n;
  return p;
}

using NodeRequest = wire::Encoder<kLongRequest>;

CUresult begin_node(Call& call, const Place& p);
void put_place(NodeRequest& e, const Place& p);
// The answer to an added node is the node; what follows it is left in `rest`.
CUresult finish_node(Call& call, NodeRequest& e, const Place& p, CUgraphNode* out,
                     wire::Decoder* rest = nullptr);
// A question about one node.
CUresult ask_node(Call& call, wire::Op op, CUgraphNode n, wire::Decoder& answer);

}  // namespace busbar::client
