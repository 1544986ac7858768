#include "softgpu/driver/batch_mem_op.h"

#include <cstdint>

#include "softgpu/driver/graph_node.h"
#include "softgpu/driver/memory.h"
#include "softgpu/driver/memory_word.h"

namespace softgpu {

CUresult mem_op_runner(Context* c, const std::vector<CUstreamBatchMemOpParams>& mem_ops,
                       std::function<CUresult()>& run) {
  std::vector<std::function<void()>> steps;
  for (auto& w : mem_ops) {
    bool wide = w.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                w.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
    bool waits = w.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                 w.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32;
    if (w.operation == CU_STREAM_MEM_OP_BARRIER ||
        w.operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES)
      continue;
    if (!waits && w.operation != CU_STREAM_MEM_OP_WRITE_VALUE_64 &&
        w.operation != CU_STREAM_MEM_OP_WRITE_VALUE_32)
      return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr p = w.waitValue.address;
    if (p % (wide ? 8 : 4) || !valid_device_range(p, wide ? 8 : 4)) return CUDA_ERROR_INVALID_VALUE;
    uint64_t v = wide ? w.waitValue.value64 : w.waitValue.value;
    unsigned flags = w.waitValue.flags;
    if (wide)
      steps.push_back([=] {
        if (waits)
          wait_for_word<uint64_t>(c, p, v, flags);
        else
          __atomic_store_n((uint64_t*)p, v, __ATOMIC_RELEASE);
      });
    else
      steps.push_back([=] {
        if (waits)
          wait_for_word<uint32_t>(c, p, (uint32_t)v, flags);
        else
          __atomic_store_n((uint32_t*)p, (uint32_t)v, __ATOMIC_RELEASE);
      });
  }
  run = [steps] {
    for (auto& s : steps) s();
    return CUDA_SUCCESS;
  };
  return CUDA_SUCCESS;
}

CUresult mem_op_params(const CUDA_BATCH_MEM_OP_NODE_PARAMS* from, NodeParams& to) {
  if (!from || from->count > 256 || from->flags || (from->count && !from->paramArray))
    return CUDA_ERROR_INVALID_VALUE;
  to.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  to.mem_ops.assign(from->paramArray, from->paramArray + from->count);
  return CUDA_SUCCESS;
}

}  // namespace softgpu
