// CUDA entry points: words of memory that streams write and wait for.
#include "client/api/require.h"
#include "client/wrapped_calls.h"

using namespace busbar::client;

template <typename T>
static CUresult check_address(CUdeviceptr p, unsigned flags, unsigned allowed) {
  REQUIRE_SESSION;
  Region r = session()->addresses.find(p);
  bool pinned =
      r.kind == Region::pinned && sizeof(T) <= r.bytes && p - r.base <= r.bytes - sizeof(T);
  bool valid = pinned || session()->addresses.device_range(p, sizeof(T));
  return p % sizeof(T) || flags & ~allowed || !valid ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
// A wait for pinned memory would not see a later write by the program.
template <typename T>
static CUresult check_wait(CUdeviceptr p, unsigned flags, unsigned allowed) {
  if (CUresult r = check_address<T>(p, flags, allowed)) return r;
  return session()->addresses.find(p).on_host() ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}
constexpr unsigned kWaitFlags = 3 | CU_STREAM_WAIT_VALUE_FLUSH,
                   kWriteFlags = CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER;

API CUresult cuStreamWaitValue32_v2(CUstream s, CUdeviceptr p, cuuint32_t v, unsigned flags) {
  CUresult r = check_wait<uint32_t>(p, flags, kWaitFlags);
  return r ? r : send_cuStreamWaitValue32_v2(s, p, v, flags);
}
API CUresult cuStreamWaitValue64_v2(CUstream s, CUdeviceptr p, cuuint64_t v, unsigned flags) {
  CUresult r = check_wait<uint64_t>(p, flags, kWaitFlags);
  return r ? r : send_cuStreamWaitValue64_v2(s, p, v, flags);
}
API CUresult cuStreamWriteValue32_v2(CUstream s, CUdeviceptr p, cuuint32_t v, unsigned flags) {
  CUresult r = check_address<uint32_t>(p, flags, kWriteFlags);
  return r ? r : send_cuStreamWriteValue32_v2(s, p, v, flags);
}
API CUresult cuStreamWriteValue64_v2(CUstream s, CUdeviceptr p, cuuint64_t v, unsigned flags) {
  CUresult r = check_address<uint64_t>(p, flags, kWriteFlags);
  return r ? r : send_cuStreamWriteValue64_v2(s, p, v, flags);
}

API CUresult cuStreamBatchMemOp_v2(CUstream s, unsigned n, CUstreamBatchMemOpParams* p,
                                   unsigned flags) {
  if (!p || n > 256 || flags) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < n; ++i) {
    CUresult r;
    switch (p[i].operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        r = cuStreamWaitValue32_v2(s, p[i].waitValue.address, p[i].waitValue.value,
                                   p[i].waitValue.flags);
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        r = cuStreamWaitValue64_v2(s, p[i].waitValue.address, p[i].waitValue.value64,
                                   p[i].waitValue.flags);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        r = cuStreamWriteValue32_v2(s, p[i].writeValue.address, p[i].writeValue.value,
                                    p[i].writeValue.flags);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        r = cuStreamWriteValue64_v2(s, p[i].writeValue.address, p[i].writeValue.value64,
                                    p[i].writeValue.flags);
        break;
      case CU_STREAM_MEM_OP_BARRIER:
      case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        r = CUDA_SUCCESS;  // the order of a stream is always kept
        break;
      default: r = CUDA_ERROR_INVALID_VALUE;
    }
    if (r) return r;
  }
  return CUDA_SUCCESS;
}
