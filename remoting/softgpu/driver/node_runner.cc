#include "softgpu/driver/node_runner.h"

#include "softgpu/driver/batch_mem_op.h"
#include "softgpu/driver/conditional.h"
#include "softgpu/driver/context.h"
#include "softgpu/driver/driver.h"
#include "softgpu/driver/event.h"
#include "softgpu/driver/fill.h"
#include "softgpu/driver/graph.h"
#include "softgpu/driver/graph_clone.h"
#include "softgpu/driver/graph_node.h"
#include "softgpu/driver/graph_runner.h"
#include "softgpu/driver/handles.h"
#include "softgpu/driver/kernel_runner.h"
#include "softgpu/driver/row_copy.h"

namespace softgpu {

CUresult node_runner(Context* c, NodeParams& p, std::function<CUresult()>& run) {
  switch (p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return kernel_runner(c, p, is_cooperative(p), true, run);
    case CU_GRAPH_NODE_TYPE_MEMCPY: return copy_runner(c->device->engine, p.copy, run);
    case CU_GRAPH_NODE_TYPE_MEMSET: return fill_runner(c->device->engine, p.fill, run);
    case CU_GRAPH_NODE_TYPE_HOST:
      if (!p.host.fn) return CUDA_ERROR_INVALID_VALUE;
      run = [h = p.host] {
        h.fn(h.userData);
        return CUDA_SUCCESS;
      };
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      if (!p.child || !is_live(p.child)) return CUDA_ERROR_INVALID_VALUE;
      if (has_conditional(p.child) || has_memory_nodes(p.child)) return CUDA_ERROR_NOT_SUPPORTED;
      p.child = clone_graph(p.child);
      run = child_runner(p.child);
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return mem_op_runner(c, p.mem_ops, run);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: {
      auto* e = (EventState*)p.event;
      if (!e || !is_live(e)) return CUDA_ERROR_INVALID_VALUE;
      return e->shared ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;  // other processes see streams
    }
    case CU_GRAPH_NODE_TYPE_EMPTY: return CUDA_SUCCESS;
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace softgpu
