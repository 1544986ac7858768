#include "softgpu/driver/kernel_runner.h"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>
#include <memory>

#include "checked_size.h"
#include "softgpu/driver/context.h"
#include "softgpu/driver/graph_node.h"
#include "softgpu/driver/module.h"
#include "softgpu/driver/occupancy.h"

namespace softgpu {

namespace {
constexpr uint64_t kMaxParameterBytes = 32764;  // CUDA's limit

CUresult error_of(const Fault& f) {
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

const char* fault_name(int kind) {
  static const char* names[] = {"",
                                "illegal address",
                                "misaligned address",
                                "trap",
                                "stack overflow or too much memory per thread",
                                "assertion failed",
                                "shared memory out of bounds"};
  return kind >= 0 && kind <= 6 ? names[kind] : "fault";
}

// Pack the arguments: from the array of pointers, or from the buffer that `extra` names.
CUresult pack(const KernelState* k, void** params, void** extra, std::vector<uint8_t>& out) {
  const auto& layout = k->description.params;
  size_t total = 0;
  for (auto& p : layout) {
    CheckedSize end = CheckedSize(p.offset) + p.bytes;
    if (!end.within(kMaxParameterBytes)) return CUDA_ERROR_INVALID_VALUE;
    total = std::max<size_t>(total, end.value());
  }
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

// Return an error if the device cannot run all blocks of the grid at once.
CUresult check_cooperative(Context* c, KernelState* k, const Launch& l) {
  int blocks = 0;
  if (CUresult r = occupancy(k, (int)l.threads(), l.dynamic_shared_bytes, &blocks)) return r;
  uint64_t room = volume((uint32_t)blocks, c->device->engine->config().multiprocessors, 1);
  return l.blocks() > room ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_SUCCESS;
}

bool has_valid_size(const KernelState* k, const CUDA_KERNEL_NODE_PARAMS& p) {
  if (!p.gridDimX || !p.gridDimY || !p.gridDimZ || !p.blockDimX || !p.blockDimY || !p.blockDimZ ||
      p.blockDimX > 1024 || p.blockDimY > 1024 || p.blockDimZ > 64 || p.gridDimX > INT_MAX ||
      p.gridDimY > 65535 || p.gridDimZ > 65535)
    return false;
  uint64_t max_threads = std::min<uint64_t>(1024, k->description.max_threads);
  return volume(p.blockDimX, p.blockDimY, p.blockDimZ) <= max_threads &&
         p.sharedMemBytes <= (unsigned)k->dynamic_shared_limit.load(std::memory_order_relaxed);
}

// Copy packed arguments to the node and let its parameters point to them.
void keep_arguments(NodeParams& node, const KernelState* k, const std::vector<uint8_t>& arguments) {
  node.packed = std::make_shared<NodeParams::PackedArguments>();
  node.packed->bytes = arguments;
  for (auto& a : k->description.params)
    node.packed->pointers.push_back(node.packed->bytes.data() + a.offset);
  node.kernel.kernelParams = node.packed->pointers.data();
  node.kernel.extra = nullptr;
}
}  // namespace

CUresult kernel_runner(Context* c, NodeParams& node, bool cooperative, bool keep,
                       std::function<CUresult()>& run) {
  CUDA_KERNEL_NODE_PARAMS& p = node.kernel;
  CUfunction f = p.func ? p.func : (CUfunction)p.kern;
  KernelState* k = kernel_of(f);
  if (!k) return CUDA_ERROR_INVALID_HANDLE;
  if (!has_valid_size(k, p) || (p.kernelParams && p.extra)) return CUDA_ERROR_INVALID_VALUE;
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
  launch->kernel = k->compiled;
  launch->cooperative = cooperative;
  if (cooperative)
    if (CUresult r = check_cooperative(c, k, *launch)) return r;
  if (keep) keep_arguments(node, k, launch->params);
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
