// CUDA entry points: a graph as DOT text for debugging. It only calls queries of the driver and
// writes the file where the program runs, so the software GPU's driver contains this file too.
#include <cuda.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "export.h"

namespace {
constexpr int kMaxDepth = 64;  // of child graphs

const char* type_name(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return "KERNEL";
    case CU_GRAPH_NODE_TYPE_MEMCPY: return "MEMCPY";
    case CU_GRAPH_NODE_TYPE_MEMSET: return "MEMSET";
    case CU_GRAPH_NODE_TYPE_HOST: return "HOST";
    case CU_GRAPH_NODE_TYPE_GRAPH: return "GRAPH";
    case CU_GRAPH_NODE_TYPE_EMPTY: return "EMPTY";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return "EVENT_WAIT";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return "EVENT_RECORD";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: return "MEM_ALLOC";
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return "MEM_FREE";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return "BATCH_MEM_OP";
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: return "CONDITIONAL";
    default: return "OTHER";
  }
}

// Append the name and the size of a kernel to a label.
CUresult append_kernel(CUgraphNode node, std::string& label) {
  CUDA_KERNEL_NODE_PARAMS p{};
  if (CUresult r = cuGraphKernelNodeGetParams(node, &p)) return r;
  const char* name = nullptr;
  if (p.func && !cuFuncGetName(&name, p.func) && name) label += std::string("\\n") + name;
  char size[128];
  std::snprintf(size, sizeof size, "\\n<<<(%u,%u,%u),(%u,%u,%u),%u>>>", p.gridDimX, p.gridDimY,
                p.gridDimZ, p.blockDimX, p.blockDimY, p.blockDimZ, p.sharedMemBytes);
  label += size;
  return CUDA_SUCCESS;
}

CUresult append_graph(CUgraph g, int depth, std::string& out);

// Append a node, and its child graph if it has one. `name` is its name in the text.
CUresult append_node(CUgraphNode node, const std::string& name, int depth, std::string& out) {
  CUgraphNodeType type;
  unsigned id = 0;
  if (CUresult r = cuGraphNodeGetType(node, &type)) return r;
  if (CUresult r = cuGraphNodeGetLocalId(node, &id)) return r;
  std::string label = std::to_string(id) + "\\n" + type_name(type);
  if (type == CU_GRAPH_NODE_TYPE_KERNEL)
    if (CUresult r = append_kernel(node, label)) return r;
  out += '"' + name + "\"[shape=\"rectangle\" label=\"" + label + "\"];\n";
  if (type != CU_GRAPH_NODE_TYPE_GRAPH) return CUDA_SUCCESS;
  CUgraph child;
  if (CUresult r = cuGraphChildGraphNodeGetGraph(node, &child)) return r;
  return append_graph(child, depth + 1, out);
}

CUresult append_edges(CUgraph g, const std::map<CUgraphNode, std::string>& names,
                      std::string& out) {
  size_t count = 0;
  if (CUresult r = cuGraphGetEdges(g, nullptr, nullptr, nullptr, &count)) return r;
  std::vector<CUgraphNode> from(count), to(count);
  std::vector<CUgraphEdgeData> data(count);
  if (count)
    if (CUresult r = cuGraphGetEdges(g, from.data(), to.data(), data.data(), &count)) return r;
  for (size_t i = 0; i < count; ++i)
    out += '"' + names.at(from[i]) + "\" -> \"" + names.at(to[i]) + "\";\n";
  return CUDA_SUCCESS;
}

CUresult append_graph(CUgraph g, int depth, std::string& out) {
  unsigned id = 0;
  size_t count = 0;
  if (depth > kMaxDepth) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = cuGraphGetId(g, &id)) return r;
  if (CUresult r = cuGraphGetNodes(g, nullptr, &count)) return r;
  std::vector<CUgraphNode> nodes(count);
  if (count)
    if (CUresult r = cuGraphGetNodes(g, nodes.data(), &count)) return r;
  std::string graph = "graph_" + std::to_string(id);
  out += "subgraph cluster_" + std::to_string(id) + " {\nlabel=\"" + graph + "\";\n";
  std::map<CUgraphNode, std::string> names;
  for (size_t i = 0; i < count; ++i) {
    std::string& name = names[nodes[i]];
    name = graph + "_node_" + std::to_string(i);
    if (CUresult r = append_node(nodes[i], name, depth, out)) return r;
  }
  if (CUresult r = append_edges(g, names, out)) return r;
  out += "}\n";
  return CUDA_SUCCESS;
}
}  // namespace

// The flags ask for more details of nodes; every text has their types, and the kernels' names and
// sizes.
API CUresult cuGraphDebugDotPrint(CUgraph g, const char* path, unsigned flags) {
  constexpr unsigned kAllFlags = 2 * CU_GRAPH_DEBUG_DOT_FLAGS_FABRIC_CPY_BATCH_NODE_PARAMS - 1;
  if (!path || flags & ~kAllFlags) return CUDA_ERROR_INVALID_VALUE;
  std::string text = "digraph dot {\n";
  if (CUresult r = append_graph(g, 0, text)) return r;
  text += "}\n";
  FILE* f = std::fopen(path, "wb");
  if (!f) return CUDA_ERROR_OPERATING_SYSTEM;
  bool written = std::fwrite(text.data(), 1, text.size(), f) == text.size();
  return !std::fclose(f) && written ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
