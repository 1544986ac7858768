// Launches, function attributes and occupancy.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "softgpu/driver/graph.h"

using namespace softgpu;

#define CURRENT(c) \
  Context* c;      \
  if (CUresult r = current_context(c)) return r
#define KERNEL(k, f)             \
  KernelState* k = kernel_of(f); \
  if (!k) return CUDA_ERROR_INVALID_HANDLE

static CUresult error_of(const Fault& f) {
  switch (f.kind) {
    case 0: return CUDA_SUCCESS;
    case FAULT_ADDRESS:
    case FAULT_SHARED: return CUDA_ERROR_ILLEGAL_ADDRESS;
    case FAULT_MISALIGNED: return CUDA_ERROR_MISALIGNED_ADDRESS;
    case FAULT_STACK: return CUDA_ERROR_HARDWARE_STACK_ERROR;
    case FAULT_ASSERT: return CUDA_ERROR_ASSERT;
    default: return CUDA_ERROR_LAUNCH_FAILED;
  }
}

static const char* fault_name(int kind) {
  static const char* names[] = {"",
                                "illegal address",
                                "misaligned address",
                                "trap",
                                "stack overflow or too much memory per thread",
                                "assertion failed",
                                "shared memory out of bounds"};
  return kind >= 0 && kind <= 6 ? names[kind] : "fault";
}

// Parameter bytes from the array of pointers, or from the packed buffer of `extra`.
static CUresult pack(const KernelState* k, void** params, void** extra, std::vector<uint8_t>& out) {
  const auto& layout = k->description.params;
  size_t total = layout.empty() ? 0 : layout.back().offset + layout.back().bytes;
  if (total > 32764) return CUDA_ERROR_INVALID_VALUE;
  out.assign(total, 0);
  if (extra) {
    const void* buffer = nullptr;
    size_t bytes = 0;
    for (void** e = extra; *e != CU_LAUNCH_PARAM_END; e += 2) {
      if (*e == CU_LAUNCH_PARAM_BUFFER_POINTER)
        buffer = e[1];
      else if (*e == CU_LAUNCH_PARAM_BUFFER_SIZE)
        bytes = *(size_t*)e[1];
      else
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!buffer || bytes < total) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(out.data(), buffer, total);
    return CUDA_SUCCESS;
  }
  if (total && !params) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < layout.size(); ++i)
    std::memcpy(out.data() + layout[i].offset, params[i], layout[i].bytes);
  return CUDA_SUCCESS;
}

static CUresult occupancy(KernelState* k, int threads, size_t dynamic, int* blocks) {
  if (CUresult r = compile_kernel(k, nullptr)) return r;
  size_t shared = k->compiled->static_shared_bytes + dynamic;
  int by_threads = threads > 1024 ? 0 : 1536 / threads,
      by_shared = shared ? (int)((100u << 10) / (shared + 1024)) : 24;
  *blocks = std::min({24, by_threads, by_shared});
  return CUDA_SUCCESS;
}

// A cooperative grid must be resident as a whole.
static CUresult check_cooperative(Context* c, KernelState* k, const Launch& l) {
  int blocks = 0;
  if (CUresult r = occupancy(k, (int)(l.block[0] * l.block[1] * l.block[2]), l.dynamic_shared_bytes,
                             &blocks))
    return r;
  uint64_t total = (uint64_t)l.grid[0] * l.grid[1] * l.grid[2];
  return total > (uint64_t)blocks * c->device->engine->shared()->multiprocessors
             ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
             : CUDA_SUCCESS;
}

namespace softgpu {

// Checks a launch and makes what runs it. With `keep` the parameters are copied, for a node that
// outlives the call.
CUresult kernel_runner(Context* c, NodeParams& node, bool cooperative, bool keep,
                       std::function<CUresult()>& run) {
  CUDA_KERNEL_NODE_PARAMS& p = node.kernel;
  CUfunction f = p.func ? p.func : (CUfunction)p.kern;
  KERNEL(k, f);
  if (!p.gridDimX || !p.gridDimY || !p.gridDimZ || !p.blockDimX || !p.blockDimY || !p.blockDimZ ||
      p.blockDimX > 1024 || p.blockDimY > 1024 || p.blockDimZ > 64 || p.gridDimY > 65535 ||
      p.gridDimZ > 65535)
    return CUDA_ERROR_INVALID_VALUE;
  if ((uint64_t)p.blockDimX * p.blockDimY * p.blockDimZ >
      std::min<uint64_t>(1024, k->description.max_threads))
    return CUDA_ERROR_INVALID_VALUE;
  if (p.sharedMemBytes > (unsigned)k->dynamic_shared_limit || (p.kernelParams && p.extra))
    return CUDA_ERROR_INVALID_VALUE;
  auto launch = std::make_shared<Launch>();
  if (CUresult r = pack(k, p.kernelParams, p.extra, launch->params)) return r;
  launch->name = k->description.name;
  launch->grid[0] = p.gridDimX;
  launch->grid[1] = p.gridDimY;
  launch->grid[2] = p.gridDimZ;
  launch->block[0] = p.blockDimX;
  launch->block[1] = p.blockDimY;
  launch->block[2] = p.blockDimZ;
  launch->dynamic_shared_bytes = p.sharedMemBytes;
  if (CUresult r = compile_kernel(k, nullptr)) return r;
  launch->kernel = k->compiled.get();
  launch->cooperative = cooperative;
  if (cooperative)
    if (CUresult r = check_cooperative(c, k, *launch)) return r;
  if (keep) {
    node.packed = std::make_shared<NodeParams::Packed>();
    node.packed->bytes = launch->params;
    for (auto& a : k->description.params)
      node.packed->pointers.push_back(node.packed->bytes.data() + a.offset);
    p.kernelParams = node.packed->pointers.data();
    p.extra = nullptr;
  }
  GridRunner* runner = c->device->runner.get();
  run = [launch, runner] {
    Fault fault = runner->run(*launch);
    if (fault.kind)
      std::fprintf(stderr, "software GPU: kernel %s: %s at 0x%llx\n", launch->name.c_str(),
                   fault_name(fault.kind), (unsigned long long)fault.address);
    return error_of(fault);
  };
  return CUDA_SUCCESS;
}

}  // namespace softgpu

static CUresult launch_grid(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                            unsigned by, unsigned bz, unsigned shared, CUstream h, void** params,
                            void** extra, bool cooperative) {
  CURRENT(c);
  if (!kernel_of(f)) return CUDA_ERROR_INVALID_HANDLE;
  StreamRef s;
  if (CUresult r = stream_for(h, c, s)) return r;
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
  std::function<CUresult()> run;
  if (CUresult r = kernel_runner(c, node, cooperative, s->capture != nullptr, run)) return r;
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
  bool cooperative = false;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    auto& a = config->attrs[i];
    bool cluster = a.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
                   a.value.clusterDim.x * a.value.clusterDim.y * a.value.clusterDim.z > 1;
    if (cluster) return CUDA_ERROR_NOT_SUPPORTED;
    cooperative |= a.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && a.value.cooperative;
  }
  return launch_grid(f, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                     config->blockDimY, config->blockDimZ, config->sharedMemBytes, config->hStream,
                     params, extra, cooperative);
}

API CUresult cuFuncLoad(CUfunction f) {
  KERNEL(k, f);
  return compile_kernel(k, nullptr);
}
API CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction f) {
  KERNEL(k, f);
  if (!state) return CUDA_ERROR_INVALID_VALUE;
  *state = k->compiled ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
  return CUDA_SUCCESS;
}
API CUresult cuFuncGetName(const char** name, CUfunction f) {
  KERNEL(k, f);
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  *name = k->description.name.c_str();
  return CUDA_SUCCESS;
}
API CUresult cuKernelGetName(const char** name, CUkernel f) {
  return cuFuncGetName(name, (CUfunction)f);
}

API CUresult cuFuncGetParamInfo(CUfunction f, size_t index, size_t* offset, size_t* bytes) {
  KERNEL(k, f);
  if (!offset || index >= k->description.params.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = k->description.params[index].offset;
  if (bytes) *bytes = k->description.params[index].bytes;
  return CUDA_SUCCESS;
}
API CUresult cuKernelGetParamInfo(CUkernel f, size_t index, size_t* offset, size_t* bytes) {
  return cuFuncGetParamInfo((CUfunction)f, index, offset, bytes);
}

API CUresult cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction f) {
  KERNEL(k, f);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (which == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) {
    *value = (int)k->description.max_threads;
    return CUDA_SUCCESS;
  }
  if (which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    *value = k->dynamic_shared_limit;
    return CUDA_SUCCESS;
  }
  if (CUresult r = compile_kernel(k, nullptr)) return r;
  switch (which) {
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = (int)k->compiled->static_shared_bytes;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = (int)k->compiled->local_bytes;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      *value = (int)k->compiled->constant_bytes;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value =
          (int)std::clamp<uint64_t>(k->compiled->registers, 8, (uint64_t)k->module->max_registers);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: {
      SharedDevice* d = device_at(k->module->ordinal)->engine->shared();
      *value = (int)(d->compute_major * 10 + d->compute_minor);
      return CUDA_SUCCESS;
    }
    default:
      *value = 0;
      return (int)which >= 0 && which < CU_FUNC_ATTRIBUTE_MAX ? CUDA_SUCCESS
                                                              : CUDA_ERROR_INVALID_VALUE;
  }
}
API CUresult cuKernelGetAttribute(int* value, CUfunction_attribute which, CUkernel f, CUdevice) {
  return cuFuncGetAttribute(value, which, (CUfunction)f);
}

API CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute which, int value) {
  KERNEL(k, f);
  if (which == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) return CUDA_SUCCESS;
  if (which != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > 99 << 10)
    return CUDA_ERROR_INVALID_VALUE;
  k->dynamic_shared_limit = value;
  return CUDA_SUCCESS;
}
API CUresult cuKernelSetAttribute(CUfunction_attribute which, int value, CUkernel f, CUdevice) {
  return cuFuncSetAttribute((CUfunction)f, which, value);
}
API CUresult cuFuncSetCacheConfig(CUfunction f, CUfunc_cache) {
  KERNEL(k, f);
  (void)k;
  return CUDA_SUCCESS;
}
API CUresult cuFuncSetSharedMemConfig(CUfunction f, CUsharedconfig) {
  KERNEL(k, f);
  (void)k;
  return CUDA_SUCCESS;
}
API CUresult cuKernelSetCacheConfig(CUkernel f, CUfunc_cache, CUdevice) {
  KERNEL(k, (CUfunction)f);
  (void)k;
  return CUDA_SUCCESS;
}

API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction f, int threads,
                                                         size_t dynamic) {
  KERNEL(k, f);
  if (!blocks || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  return occupancy(k, threads, dynamic, blocks);
}
API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction f,
                                                                  int threads, size_t dynamic,
                                                                  unsigned) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, f, threads, dynamic);
}

API CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction f,
                                              CUoccupancyB2DSize size_of, size_t dynamic,
                                              int limit) {
  KERNEL(k, f);
  if (!grid || !block) return CUDA_ERROR_INVALID_VALUE;
  int most = (int)std::min<uint64_t>(1024, k->description.max_threads);
  if (limit > 0) most = std::min(most, limit);
  int best = 32, best_threads = 0;
  for (int t = (most + 31) / 32 * 32; t >= 32; t -= 32) {
    int blocks = 0, threads = std::min(t, most);
    if (CUresult r = cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &blocks, f, threads, size_of ? size_of(threads) : dynamic))
      return r;
    if (blocks * threads > best_threads) {
      best_threads = blocks * threads;
      best = threads;
      *grid = blocks * (int)driver()->config.multiprocessors;
    }
  }
  *block = best;
  return CUDA_SUCCESS;
}
