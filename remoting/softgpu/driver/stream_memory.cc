// Stream memory operations: words that streams write and wait for. A wait blocks its stream's own
// thread, so frees elsewhere go on.
#include <time.h>

#include <atomic>

#include "softgpu/driver/graph.h"

using namespace softgpu;

#define CURRENT(c) \
  Context* c;      \
  if (CUresult r = current_context(c)) return r

static bool met(uint64_t now, uint64_t value, unsigned flags, bool wide) {
  switch (flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return wide ? (int64_t)(now - value) >= 0 : (int32_t)((uint32_t)now - (uint32_t)value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ: return now == value;
    case CU_STREAM_WAIT_VALUE_AND: return (now & value) != 0;
    default: return wide ? ~(now | value) != 0 : (uint32_t)~(now | value) != 0;
  }
}

template <typename T>
static void await(Context* c, CUdeviceptr p, T value, unsigned flags) {
  timespec pause{0, 20'000};  // nothing tells us of a store by a kernel or by the host
  while (!met(__atomic_load_n((T*)p, __ATOMIC_ACQUIRE), value, flags, sizeof(T) == 8) &&
         !c->destroyed && !c->error)
    nanosleep(&pause, nullptr);
}

template <typename T>
static CUresult wait(CUstream h, CUdeviceptr p, T value, unsigned flags) {
  CURRENT(c);
  StreamRef s;
  if (CUresult r = stream_for(h, c, s)) return r;
  if (p % sizeof(T) || !valid_device_range(p, sizeof(T)) ||
      flags & ~(unsigned)(3 | CU_STREAM_WAIT_VALUE_FLUSH))
    return CUDA_ERROR_INVALID_VALUE;
  enqueue(s, [=] {
    await<T>(c, p, value, flags);
    return CUDA_SUCCESS;
  });
  return CUDA_SUCCESS;
}

template <typename T>
static CUresult write(CUstream h, CUdeviceptr p, T value, unsigned flags) {
  CURRENT(c);
  StreamRef s;
  if (CUresult r = stream_for(h, c, s)) return r;
  if (p % sizeof(T) || !valid_device_range(p, sizeof(T)) ||
      flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)
    return CUDA_ERROR_INVALID_VALUE;
  enqueue(s, [=] {
    __atomic_store_n((T*)p, value, __ATOMIC_RELEASE);
    return CUDA_SUCCESS;
  });
  return CUDA_SUCCESS;
}

namespace softgpu {
CUresult words_runner(Context* c, const std::vector<CUstreamBatchMemOpParams>& words,
                      std::function<CUresult()>& run) {
  std::vector<std::function<void()>> steps;
  for (auto& w : words) {
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
          await<uint64_t>(c, p, v, flags);
        else
          __atomic_store_n((uint64_t*)p, v, __ATOMIC_RELEASE);
      });
    else
      steps.push_back([=] {
        if (waits)
          await<uint32_t>(c, p, (uint32_t)v, flags);
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
}  // namespace softgpu

API CUresult cuStreamWaitValue32(CUstream s, CUdeviceptr p, cuuint32_t v, unsigned flags) {
  return wait<uint32_t>(s, p, v, flags);
}
API CUresult cuStreamWaitValue64(CUstream s, CUdeviceptr p, cuuint64_t v, unsigned flags) {
  return wait<uint64_t>(s, p, v, flags);
}
API CUresult cuStreamWriteValue32(CUstream s, CUdeviceptr p, cuuint32_t v, unsigned flags) {
  return write<uint32_t>(s, p, v, flags);
}
API CUresult cuStreamWriteValue64(CUstream s, CUdeviceptr p, cuuint64_t v, unsigned flags) {
  return write<uint64_t>(s, p, v, flags);
}

API CUresult cuStreamBatchMemOp(CUstream s, unsigned n, CUstreamBatchMemOpParams* p,
                                unsigned flags) {
  if (!p || n > 256 || flags) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < n; ++i) {
    CUresult r;
    switch (p[i].operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        r = wait<uint32_t>(s, p[i].waitValue.address, p[i].waitValue.value, p[i].waitValue.flags);
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        r = wait<uint64_t>(s, p[i].waitValue.address, p[i].waitValue.value64, p[i].waitValue.flags);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        r = write<uint32_t>(s, p[i].writeValue.address, p[i].writeValue.value,
                            p[i].writeValue.flags);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        r = write<uint64_t>(s, p[i].writeValue.address, p[i].writeValue.value64,
                            p[i].writeValue.flags);
        break;
      case CU_STREAM_MEM_OP_BARRIER:
      case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: r = CUDA_SUCCESS; break;
      default: r = CUDA_ERROR_INVALID_VALUE;
    }
    if (r) return r;
  }
  return CUDA_SUCCESS;
}
