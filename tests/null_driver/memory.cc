// Null driver: memory. The null driver is a CUDA driver without a GPU, for tests and benchmarks
// only. Device memory is host memory, kernels do nothing, and all work is complete when a call
// returns. It is part of no package (see tests/remoting/test_runtime.py).
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>

#include "null_driver/array.h"
#include "null_driver/dirty.h"
#include "null_driver/driver.h"

namespace {
std::mutex g_mutex;
std::map<CUdeviceptr, size_t>& blocks() {
  static auto* m = new std::map<CUdeviceptr, size_t>;
  return *m;
}
struct Physical {
  int fd;
  size_t bytes;
};
size_t g_used = 0;

void* fresh(void* at, size_t bytes, int protection, int flags) {
  void* p = mmap(at, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}
// One side of a copy: the address of row 0, and the distances of rows and slices.
struct Side {
  char* base;
  size_t pitch, rows;
  char* row(size_t z, size_t y) const { return base + (z * rows + y) * pitch; }
};
Side side_of(CUmemorytype type, const void* host, CUdeviceptr device, CUarray array, size_t pitch,
             size_t rows) {
  if (type == CU_MEMORYTYPE_HOST) return {(char*)host, pitch, rows};
  if (type != CU_MEMORYTYPE_ARRAY) return {(char*)device, pitch, rows};
  auto* a = (NullArray*)array;
  return {(char*)a->content.data(), a->row_bytes, a->rows};
}
void copy_rows(const CUDA_MEMCPY3D& c) {
  Side from = side_of(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcArray, c.srcPitch, c.srcHeight);
  Side to = side_of(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray, c.dstPitch, c.dstHeight);
  for (size_t z = 0; z < c.Depth; ++z)
    for (size_t y = 0; y < c.Height; ++y)
      std::memmove(to.row(c.dstZ + z, c.dstY + y) + c.dstXInBytes,
                   from.row(c.srcZ + z, c.srcY + y) + c.srcXInBytes, c.WidthInBytes);
}
}  // namespace

API CUresult cuMemAlloc(CUdeviceptr* out, size_t bytes) {
  void* p = bytes ? fresh(nullptr, bytes, PROT_READ | PROT_WRITE, 0) : nullptr;
  if (!p) return CUDA_ERROR_OUT_OF_MEMORY;
  make_dirty(p, bytes);
  std::lock_guard lock(g_mutex);
  blocks()[(CUdeviceptr)p] = bytes;
  g_used += bytes;
  *out = (CUdeviceptr)p;
  return CUDA_SUCCESS;
}
API CUresult cuMemFree(CUdeviceptr p) {
  std::lock_guard lock(g_mutex);
  auto it = blocks().find(p);
  if (it == blocks().end()) return CUDA_ERROR_INVALID_VALUE;
  munmap((void*)p, it->second);
  g_used -= it->second;
  blocks().erase(it);
  return CUDA_SUCCESS;
}
API CUresult cuMemGetInfo(size_t* free, size_t* total) {
  *total = kMemoryBytes;
  *free = kMemoryBytes - g_used;
  return CUDA_SUCCESS;
}
API CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned) {
  *out = fresh(nullptr, bytes + 64, PROT_READ | PROT_WRITE, 0);
  std::lock_guard lock(g_mutex);
  blocks()[(CUdeviceptr)*out] = bytes + 64;
  return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
API CUresult cuMemFreeHost(void* p) {
  return cuMemFree((CUdeviceptr)p);
}

// ---- virtual memory ----
API CUresult cuMemGetAllocationGranularity(size_t* out, const CUmemAllocationProp*,
                                           CUmemAllocationGranularity_flags) {
  *out = 2 << 20;
  return CUDA_SUCCESS;
}
API CUresult cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t, CUdeviceptr hint,
                                 unsigned long long) {
  void* p = hint ? fresh((void*)hint, bytes, PROT_NONE, MAP_FIXED_NOREPLACE) : nullptr;
  if (!p) p = fresh(nullptr, bytes, PROT_NONE, 0);
  *out = (CUdeviceptr)p;
  return p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
API CUresult cuMemAddressFree(CUdeviceptr p, size_t bytes) {
  munmap((void*)p, bytes);
  return CUDA_SUCCESS;
}
API CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes,
                         const CUmemAllocationProp*, unsigned long long) {
  int fd = memfd_create("null-driver", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (off_t)bytes) || !make_file_dirty(fd, bytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  *out = (CUmemGenericAllocationHandle) new Physical{fd, bytes};
  return CUDA_SUCCESS;
}
API CUresult cuMemRelease(CUmemGenericAllocationHandle h) {
  auto* p = (Physical*)h;
  close(p->fd);
  delete p;
  return CUDA_SUCCESS;
}
API CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t, CUmemGenericAllocationHandle h,
                      unsigned long long) {
  return mmap((void*)at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, ((Physical*)h)->fd,
              0) == MAP_FAILED
             ? CUDA_ERROR_OUT_OF_MEMORY
             : CUDA_SUCCESS;
}
API CUresult cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) {
  return CUDA_SUCCESS;
}
API CUresult cuMemUnmap(CUdeviceptr at, size_t bytes) {
  return fresh((void*)at, bytes, PROT_NONE, MAP_FIXED) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

// ---- copies and fills ----
API CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t n, CUstream) {
  std::memcpy((void*)to, from, n);
  return CUDA_SUCCESS;
}
API CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t n, CUstream) {
  std::memcpy(to, (void*)from, n);
  return CUDA_SUCCESS;
}
API CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream) {
  std::memmove((void*)to, (void*)from, n);
  return CUDA_SUCCESS;
}
API CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t n) {
  return cuMemcpyHtoDAsync(to, from, n, nullptr);
}
API CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t n) {
  return cuMemcpyDtoHAsync(to, from, n, nullptr);
}
API CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D* c, CUstream) {
  copy_rows(*c);
  return CUDA_SUCCESS;
}
API CUresult cuMemcpy3D(const CUDA_MEMCPY3D* c) {
  return cuMemcpy3DAsync(c, nullptr);
}
API CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char v, size_t n, CUstream) {
  if (v)
    std::memset((void*)p, v, n);
  else
    write_zeros((void*)p, n);
  return CUDA_SUCCESS;
}
API CUresult cuMemsetD16Async(CUdeviceptr p, unsigned short v, size_t n, CUstream) {
  for (size_t i = 0; i < n; ++i) ((unsigned short*)p)[i] = v;
  return CUDA_SUCCESS;
}
API CUresult cuMemsetD32Async(CUdeviceptr p, unsigned v, size_t n, CUstream) {
  for (size_t i = 0; i < n; ++i) ((unsigned*)p)[i] = v;
  return CUDA_SUCCESS;
}
template <typename T>
CUresult fill_rows(CUdeviceptr p, size_t pitch, T v, size_t width, size_t height) {
  for (size_t y = 0; y < height; ++y)
    for (size_t x = 0; x < width; ++x) ((T*)(p + y * pitch))[x] = v;
  return CUDA_SUCCESS;
}
API CUresult cuMemsetD2D8Async(CUdeviceptr p, size_t pitch, unsigned char v, size_t w, size_t h,
                               CUstream) {
  return fill_rows(p, pitch, v, w, h);
}
API CUresult cuMemsetD2D16Async(CUdeviceptr p, size_t pitch, unsigned short v, size_t w, size_t h,
                                CUstream) {
  return fill_rows(p, pitch, v, w, h);
}
API CUresult cuMemsetD2D32Async(CUdeviceptr p, size_t pitch, unsigned v, size_t w, size_t h,
                                CUstream) {
  return fill_rows(p, pitch, v, w, h);
}

// ---- textures ----
API CUresult cuTexObjectCreate(CUtexObject* out, const CUDA_RESOURCE_DESC*,
                               const CUDA_TEXTURE_DESC*, const CUDA_RESOURCE_VIEW_DESC*) {
  *out = 1;
  return CUDA_SUCCESS;
}
API CUresult cuTexObjectDestroy(CUtexObject) {
  return CUDA_SUCCESS;
}
