// CUDA entry points: graphs, their nodes and edges.
#include <algorithm>

#include "softgpu/api/require.h"
#include "softgpu/driver/conditional.h"
#include "softgpu/driver/graph.h"
#include "softgpu/driver/graph_clone.h"

using namespace softgpu;

API CUresult cuGraphCreate(CUgraph* out, unsigned flags) {
  REQUIRE_CURRENT_CONTEXT(c);
  (void)c;
  if (!out || flags) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUgraph)make_graph();
  return CUDA_SUCCESS;
}
API CUresult cuGraphDestroy(CUgraph h) {
  REQUIRE_LIVE(GraphState, g, h);
  if (g->parent || is_captured(g)) return CUDA_ERROR_INVALID_VALUE;
  destroy_graph(g);
  return CUDA_SUCCESS;
}
API CUresult cuGraphClone(CUgraph* out, CUgraph h) {
  REQUIRE_LIVE(GraphState, g, h);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (has_conditional(g) || has_memory_nodes(g)) return CUDA_ERROR_NOT_SUPPORTED;
  *out = (CUgraph)clone_graph(g);
  return CUDA_SUCCESS;
}
API CUresult cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode original, CUgraph h) {
  REQUIRE_LIVE(GraphState, g, h);
  auto it = g->copies.find((GraphNode*)original);
  if (!out || it == g->copies.end()) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUgraphNode)it->second;
  return CUDA_SUCCESS;
}

// Return a list to the program. Without `out` set `count` to its length; otherwise cut the list to
// `count` elements or fill up with null.
template <typename T>
static CUresult list(const std::vector<T>& all, T* out, size_t* count) {
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  if (out)
    for (size_t i = 0; i < *count; ++i) out[i] = i < all.size() ? all[i] : T{};
  *count = out ? std::min(*count, all.size()) : all.size();
  return CUDA_SUCCESS;
}

API CUresult cuGraphGetNodes(CUgraph h, CUgraphNode* out, size_t* count) {
  REQUIRE_LIVE(GraphState, g, h);
  std::vector<CUgraphNode> all;
  for (auto& n : g->nodes) all.push_back((CUgraphNode)n.get());
  return list(all, out, count);
}

API CUresult cuGraphGetRootNodes(CUgraph h, CUgraphNode* out, size_t* count) {
  REQUIRE_LIVE(GraphState, g, h);
  std::vector<CUgraphNode> all;
  for (auto& n : g->nodes)
    if (n->dependencies.empty()) all.push_back((CUgraphNode)n.get());
  return list(all, out, count);
}

API CUresult cuGraphGetEdges(CUgraph h, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                             size_t* count) {
  REQUIRE_LIVE(GraphState, g, h);
  std::vector<CUgraphNode> froms, tos;
  for (auto& n : g->nodes)
    for (auto* d : n->dependencies) {
      froms.push_back((CUgraphNode)d);
      tos.push_back((CUgraphNode)n.get());
    }
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  size_t room = *count;
  if (data)
    for (size_t i = 0; i < room; ++i) data[i] = {};
  if (CUresult r = list(froms, from, &room)) return r;
  return list(tos, to, count);
}

API CUresult cuGraphNodeGetDependencies(CUgraphNode h, CUgraphNode* out, CUgraphEdgeData* data,
                                        size_t* count) {
  REQUIRE_LIVE(GraphNode, n, h);
  if (data && count)
    for (size_t i = 0; i < *count; ++i) data[i] = {};
  return list(
      std::vector<CUgraphNode>((CUgraphNode*)n->dependencies.data(),
                               (CUgraphNode*)n->dependencies.data() + n->dependencies.size()),
      out, count);
}

API CUresult cuGraphNodeGetDependentNodes(CUgraphNode h, CUgraphNode* out, CUgraphEdgeData* data,
                                          size_t* count) {
  REQUIRE_LIVE(GraphNode, n, h);
  if (data && count)
    for (size_t i = 0; i < *count; ++i) data[i] = {};
  std::vector<CUgraphNode> all;
  for (auto& other : n->graph->nodes)
    if (std::count(other->dependencies.begin(), other->dependencies.end(), n))
      all.push_back((CUgraphNode)other.get());
  return list(all, out, count);
}

API CUresult cuGraphAddDependencies(CUgraph h, const CUgraphNode* from, const CUgraphNode* to,
                                    const CUgraphEdgeData*, size_t count) {
  REQUIRE_LIVE(GraphState, g, h);
  if (count && (!from || !to)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    auto *a = (GraphNode*)from[i], *b = (GraphNode*)to[i];
    if (!is_live(a) || !is_live(b) || a->graph != g || b->graph != g || a == b ||
        std::count(b->dependencies.begin(), b->dependencies.end(), a))
      return CUDA_ERROR_INVALID_VALUE;
    b->dependencies.push_back(a);
  }
  return CUDA_SUCCESS;
}

API CUresult cuGraphRemoveDependencies(CUgraph h, const CUgraphNode* from, const CUgraphNode* to,
                                       const CUgraphEdgeData*, size_t count) {
  REQUIRE_LIVE(GraphState, g, h);
  if (has_memory_nodes(g)) return CUDA_ERROR_NOT_SUPPORTED;
  if (count && (!from || !to)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    REQUIRE_LIVE(GraphNode, b, to[i]);
    if (!std::erase(b->dependencies, (GraphNode*)from[i])) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

API CUresult cuGraphDestroyNode(CUgraphNode h) {
  REQUIRE_LIVE(GraphNode, n, h);
  if (is_captured(n)) return CUDA_ERROR_INVALID_VALUE;
  GraphState* g = n->graph;
  if (has_memory_nodes(g)) return CUDA_ERROR_NOT_SUPPORTED;
  for (auto& other : g->nodes) std::erase(other->dependencies, n);
  remove_handle(n);
  if (n->params.child) destroy_graph(n->params.child);
  for (auto* b : n->params.bodies) destroy_graph(b);
  std::erase_if(g->nodes, [&](auto& p) { return p.get() == n; });
  return CUDA_SUCCESS;
}

API CUresult cuGraphNodeGetType(CUgraphNode h, CUgraphNodeType* type) {
  REQUIRE_LIVE(GraphNode, n, h);
  if (!type) return CUDA_ERROR_INVALID_VALUE;
  *type = n->params.type;
  return CUDA_SUCCESS;
}
API CUresult cuGraphNodeGetContainingGraph(CUgraphNode h, CUgraph* g) {
  REQUIRE_LIVE(GraphNode, n, h);
  if (!g) return CUDA_ERROR_INVALID_VALUE;
  *g = (CUgraph)n->graph;
  return CUDA_SUCCESS;
}
API CUresult cuGraphNodeGetLocalId(CUgraphNode h, unsigned* id) {
  REQUIRE_LIVE(GraphNode, n, h);
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  *id = n->id;
  return CUDA_SUCCESS;
}
// Unique in the process, unlike the local identifier.
API CUresult cuGraphNodeGetToolsId(CUgraphNode h, unsigned long long* id) {
  REQUIRE_LIVE(GraphNode, n, h);
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  *id = (unsigned long long)n->graph->id << 32 | n->id;
  return CUDA_SUCCESS;
}
API CUresult cuGraphGetId(CUgraph h, unsigned* id) {
  REQUIRE_LIVE(GraphState, g, h);
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  *id = g->id;
  return CUDA_SUCCESS;
}
