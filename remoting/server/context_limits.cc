#include "server/context_limits.h"

#include <algorithm>

#include "checked_size.h"

namespace busbar::server {

namespace {
constexpr uint64_t kUnitBytes = 4096;

// These limits reserve memory that cannot be computed. A program may only lower them.
bool is_unaccountable(CUlimit limit) {
  return limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH ||
         limit == CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT;
}

// Returns the number of threads that a GPU can execute at once. Each has a stack.
uint64_t resident_threads(Driver& cu) {
  CUdevice device = 0;
  int processors = 0, threads = 0;
  cu.cuCtxGetDevice(&device);
  cu.cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  cu.cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device);
  return volume((uint32_t)processors, (uint32_t)threads, 1);
}
}  // namespace

// Stacks and the buffer of printf are host memory on the software GPU.
uint64_t ContextLimits::device_bytes(CUlimit limit, uint64_t value) const {
  CheckedSize bytes = value;
  switch (limit) {
    case CU_LIMIT_MALLOC_HEAP_SIZE: break;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
      if (cu_.software) return 0;
      break;
    case CU_LIMIT_STACK_SIZE:
      if (cu_.software) return 0;
      bytes = bytes * resident_threads(cu_);
      break;
    default: return 0;
  }
  return bytes.rounded_up(kUnitBytes).value();
}

uint64_t ContextLimits::extra_bytes(CUlimit limit, const State& s, uint64_t value) const {
  uint64_t initial = device_bytes(limit, s.initial), bytes = device_bytes(limit, value);
  return bytes > initial ? bytes - initial : 0;
}

// Returns null if the driver does not know the limit.
ContextLimits::State* ContextLimits::state_of(uint32_t partition, CUlimit limit) {
  auto it = states_.find({partition, limit});
  if (it != states_.end()) return &it->second;
  size_t value = 0;
  if (!cu_.cuCtxGetLimit || cu_.cuCtxGetLimit(&value, limit)) return nullptr;
  return &states_.try_emplace({partition, limit}, State{value, 0}).first->second;
}

CUresult ContextLimits::charge(State& s, uint32_t partition, uint64_t bytes, bool asks) {
  if (bytes <= s.charged_bytes) return CUDA_SUCCESS;
  if (!account_.reserve(partition, bytes - s.charged_bytes, asks)) return CUDA_ERROR_OUT_OF_MEMORY;
  s.charged_bytes = bytes;
  return CUDA_SUCCESS;
}

CUresult ContextLimits::set(uint32_t partition, CUlimit limit, uint64_t value, bool asks) {
  State* s = state_of(partition, limit);
  if (!s || (is_unaccountable(limit) && value > s->initial)) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  uint64_t before = s->charged_bytes;
  uint64_t bytes = std::max(extra_bytes(limit, *s, value), s->kernel_bytes);
  if (CUresult r = charge(*s, partition, bytes, asks)) return r;
  CUresult r = cu_.cuCtxSetLimit(limit, value);
  uint64_t needed = r ? before : bytes;
  if (needed < s->charged_bytes) account_.release(partition, s->charged_bytes - needed);
  s->charged_bytes = needed;
  return r;
}

CUresult ContextLimits::admit(uint32_t partition, CUfunction f, bool asks) {
  int bytes = 0;
  if (cu_.software || cu_.cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, f))
    return CUDA_SUCCESS;
  State* s = state_of(partition, CU_LIMIT_STACK_SIZE);
  if (!s) return CUDA_SUCCESS;
  uint64_t needed = extra_bytes(CU_LIMIT_STACK_SIZE, *s, (uint64_t)bytes);
  if (CUresult r = charge(*s, partition, needed, asks)) return r;
  s->kernel_bytes = std::max(s->kernel_bytes, needed);
  return CUDA_SUCCESS;
}

}  // namespace busbar::server
