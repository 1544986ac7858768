// CUDA entry points: launches of kernels.
#include "checked_size.h"
#include "softgpu/api/require.h"
#include "softgpu/driver/capture.h"
#include "softgpu/driver/graph_node.h"
#include "softgpu/driver/kernel_runner.h"
#include "softgpu/driver/module.h"
#include "softgpu/driver/stream_queue.h"
#include "wire/launch_attribute.h"

using namespace softgpu;

static CUresult launch_grid(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                            unsigned by, unsigned bz, unsigned shared, CUstream h, void** params,
                            void** extra, bool cooperative) {
  REQUIRE_CURRENT_CONTEXT(c);
  if (!kernel_of(f)) return CUDA_ERROR_INVALID_HANDLE;
  REQUIRE_WORK_STREAM(s, h, c);
  NodeParams node;
  node.type = CU_GRAPH_NODE_TYPE_KERNEL;
  node.kernel.func = f;
  node.kernel.gridDimX = gx;
  node.kernel.gridDimY = gy;
  node.kernel.gridDimZ = gz;
  node.kernel.blockDimX = bx;
  node.kernel.blockDimY = by;
  node.kernel.blockDimZ = bz;
  node.kernel.sharedMemBytes = shared;
  node.kernel.kernelParams = params;
  node.kernel.extra = extra;
  if (cooperative) node.attributes[CU_LAUNCH_ATTRIBUTE_COOPERATIVE].cooperative = 1;
  std::function<CUresult()> run;
  if (CUresult r = kernel_runner(c, node, cooperative, is_captured(s), run)) return r;
  enqueue(s, std::move(run), {}, &node);
  return CUDA_SUCCESS;
}

API CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                            unsigned by, unsigned bz, unsigned shared, CUstream h, void** params,
                            void** extra) {
  return launch_grid(f, gx, gy, gz, bx, by, bz, shared, h, params, extra, false);
}

API CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                       unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                       CUstream h, void** params) {
  return launch_grid(f, gx, gy, gz, bx, by, bz, shared, h, params, nullptr, true);
}

API CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** params,
                              void** extra) {
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  constexpr auto kLaunch = busbar::wire::AttributeUse::launch;
  bool cooperative = false;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    auto& a = config->attrs[i];
    if (!find_attribute(a.id, kLaunch)) return refusal(a.id, kLaunch);
    bool cluster = a.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
                   volume(a.value.clusterDim.x, a.value.clusterDim.y, a.value.clusterDim.z) > 1;
    if (cluster) return CUDA_ERROR_NOT_SUPPORTED;
    cooperative |= a.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && a.value.cooperative;
  }
  return launch_grid(f, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                     config->blockDimY, config->blockDimZ, config->sharedMemBytes, config->hStream,
                     params, extra, cooperative);
}
