// CUDA entry points: words of memory that streams write and wait for. A wait blocks the thread of
// the stream only.
#include <cstdint>

#include "softgpu/api/require.h"
#include "softgpu/driver/memory.h"
#include "softgpu/driver/memory_word.h"
#include "softgpu/driver/stream_queue.h"

using namespace softgpu;

template <typename T>
static CUresult wait(CUstream h, CUdeviceptr p, T value, unsigned flags) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_WORK_STREAM(s, h, c);
  if (p % sizeof(T) || !valid_device_range(p, sizeof(T)) ||
      flags & ~(unsigned)(3 | CU_STREAM_WAIT_VALUE_FLUSH))
    return CUDA_ERROR_INVALID_VALUE;
  enqueue(s, [=] {
    wait_for_word<T>(c, p, value, flags);
    return CUDA_SUCCESS;
  });
  return CUDA_SUCCESS;
}

template <typename T>
static CUresult write(CUstream h, CUdeviceptr p, T value, unsigned flags) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_WORK_STREAM(s, h, c);
  if (p % sizeof(T) || !valid_device_range(p, sizeof(T)) ||
      flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)
    return CUDA_ERROR_INVALID_VALUE;
  enqueue(s, [=] {
    __atomic_store_n((T*)p, value, __ATOMIC_RELEASE);
    return CUDA_SUCCESS;
  });
  return CUDA_SUCCESS;
}

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
