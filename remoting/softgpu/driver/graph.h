// Graphs of nodes.
//
// Thread safety: graphs are not synchronised; programs must not change a graph in two threads.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "softgpu/driver/graph_node.h"
#include "softgpu/driver/user_object.h"

namespace softgpu {

struct GraphState {
  unsigned id = 0;
  std::vector<std::unique_ptr<GraphNode>> nodes;
  ObjectCounts objects;
  // A condition lives as long as a graph or an executable graph uses it.
  struct Condition {
    uint64_t handle;
    uint32_t value;
    bool assigned;  // `value` is assigned at the start of every launch
    std::shared_ptr<void> lifetime;
  };
  std::vector<Condition> conditions;
  std::map<const GraphNode*, GraphNode*> copies;  // of a clone: original node to its copy
  GraphState* parent = nullptr;                   // the graph of the node that owns this graph
  int captures = 0;                               // that append nodes to it
  mutable std::weak_ptr<void> exec;               // lifetime of its newest executable graph
};

GraphState* make_graph();
void destroy_graph(GraphState* g);
// Return whether a capture appends nodes to the graph, or to one in its nodes.
bool is_captured(const GraphState* g);
bool is_captured(const GraphNode* n);
GraphNode* add_node(GraphState* g, NodeParams params, std::function<CUresult()> run,
                    std::vector<GraphNode*> dependencies);
// Return whether a graph allocates or frees memory. CUDA permits no clones of it, no use in a child
// graph node, and no removal of nodes and edges.
bool has_memory_nodes(const GraphState* g);
// Sort the nodes of a graph into `order`. Return false if it has a cycle.
bool sort_topologically(const GraphState* g, std::vector<GraphNode*>& order);

}  // namespace softgpu
