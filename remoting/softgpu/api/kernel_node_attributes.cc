// CUDA entry points: attributes of kernel nodes.
#include "checked_size.h"
#include "softgpu/api/require.h"
#include "softgpu/driver/graph_node.h"
#include "softgpu/driver/node_runner.h"
#include "wire/launch_attribute.h"

using namespace softgpu;

#define REQUIRE_KERNEL_NODE(node, handle) \
  REQUIRE_LIVE(GraphNode, node, handle);  \
  if (node->params.type != CU_GRAPH_NODE_TYPE_KERNEL) return CUDA_ERROR_INVALID_VALUE

// Return the error for an attribute that a kernel node does not have.
static CUresult check_attribute(CUkernelNodeAttrID which) {
  constexpr auto kNode = busbar::wire::AttributeUse::node;
  return find_attribute(which, kNode) ? CUDA_SUCCESS : refusal(which, kNode);
}

// Change the attributes of a node: only a cooperative launch affects how it runs.
static CUresult change(GraphNode* n, const decltype(NodeParams::attributes)& attributes) {
  REQUIRE_CURRENT_CONTEXT(c);
  NodeParams params = n->params;
  params.attributes = attributes;
  std::function<CUresult()> run;
  if (CUresult r = node_runner(c, params, run)) return r;
  n->params = std::move(params);
  n->run = std::move(run);
  return CUDA_SUCCESS;
}

static int is_cooperative(const GraphNode* n) {
  auto it = n->params.attributes.find(CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  return it != n->params.attributes.end() && it->second.cooperative;
}

API CUresult cuGraphKernelNodeSetAttribute(CUgraphNode h, CUkernelNodeAttrID which,
                                           const CUkernelNodeAttrValue* value) {
  REQUIRE_KERNEL_NODE(n, h);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = check_attribute(which)) return r;
  if (which == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
      volume(value->clusterDim.x, value->clusterDim.y, value->clusterDim.z) > 1)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (which == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && value->cooperative != is_cooperative(n))
    return CUDA_ERROR_INVALID_VALUE;  // as NVIDIA's driver
  auto attributes = n->params.attributes;
  attributes[which] = *value;
  return change(n, attributes);
}

API CUresult cuGraphKernelNodeGetAttribute(CUgraphNode h, CUkernelNodeAttrID which,
                                           CUkernelNodeAttrValue* value) {
  REQUIRE_KERNEL_NODE(n, h);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = check_attribute(which)) return r;
  *value = {};
  auto& attributes = n->params.attributes;
  if (auto it = attributes.find(which); it != attributes.end()) *value = it->second;
  return CUDA_SUCCESS;
}

API CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  REQUIRE_KERNEL_NODE(a, to);
  REQUIRE_KERNEL_NODE(b, from);
  return change(a, b->params.attributes);
}
