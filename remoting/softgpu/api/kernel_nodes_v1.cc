// CUDA entry points: kernel nodes with the parameters of CUDA 11, which have neither kernel handle
// nor context.
#include <cuda.h>

#include <cstring>

#include "export.h"

static CUDA_KERNEL_NODE_PARAMS as_v2(const CUDA_KERNEL_NODE_PARAMS_v1& p) {
  CUDA_KERNEL_NODE_PARAMS q{};
  std::memcpy(&q, &p, sizeof p);
  return q;
}

#undef cuGraphAddKernelNode
#undef cuGraphKernelNodeGetParams
#undef cuGraphKernelNodeSetParams
#undef cuGraphExecKernelNodeSetParams
API CUresult cuGraphAddKernelNode(CUgraphNode* out, CUgraph g, const CUgraphNode* d, size_t n,
                                  const CUDA_KERNEL_NODE_PARAMS_v1* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  auto q = as_v2(*p);
  return cuGraphAddKernelNode_v2(out, g, d, n, &q);
}
API CUresult cuGraphKernelNodeSetParams(CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS_v1* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  auto q = as_v2(*p);
  return cuGraphKernelNodeSetParams_v2(n, &q);
}
API CUresult cuGraphExecKernelNodeSetParams(CUgraphExec e, CUgraphNode n,
                                            const CUDA_KERNEL_NODE_PARAMS_v1* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  auto q = as_v2(*p);
  return cuGraphExecKernelNodeSetParams_v2(e, n, &q);
}
API CUresult cuGraphKernelNodeGetParams(CUgraphNode n, CUDA_KERNEL_NODE_PARAMS_v1* p) {
  CUDA_KERNEL_NODE_PARAMS q;
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  CUresult r = cuGraphKernelNodeGetParams_v2(n, &q);
  if (!r) std::memcpy(p, &q, sizeof *p);
  return r;
}
