/* Copies of many sizes in both directions, pinned and pageable; fills; pointer attributes; errors.
 */
#include "check.h"

int main(void) {
  static const size_t sizes[] = {1, 3, 4095, 4096, 4097, 65536, 1 << 20, (4 << 20) + 5, 9 << 20};
  CUdeviceptr p;
  CUstream s;
  create_context();
  OK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
  for (int pinned = 0; pinned < 2; ++pinned)
    for (unsigned k = 0; k < sizeof sizes / sizeof sizes[0]; ++k) {
      size_t n = sizes[k];
      unsigned char *from, *to;
      if (pinned) {
        OK(cuMemHostAlloc((void**)&from, n, 0));
        OK(cuMemAllocHost((void**)&to, n));
      } else {
        from = malloc(n);
        to = malloc(n);
      }
      for (size_t i = 0; i < n; ++i) from[i] = (unsigned char)(i * 131 + n + (unsigned)pinned);
      memset(to, 0, n);
      OK(cuMemAlloc(&p, n));
      OK(cuMemcpyHtoDAsync(p, from, n, s));
      if (!pinned) memset(from, 0xee, n); /* pageable memory is copied before the call returns */
      OK(cuMemcpyDtoHAsync(to, p, n, s));
      OK(cuStreamSynchronize(s));
      int correct = 1;
      for (size_t i = 0; i < n; ++i)
        correct &= to[i] == (unsigned char)(i * 131 + n + (unsigned)pinned);
      printf("%zu bytes, pinned %d: %s\n", n, pinned, correct ? "correct" : "WRONG");
      OK(cuMemFree(p));
      if (pinned) {
        OK(cuMemFreeHost(from));
        OK(cuMemFreeHost(to));
      } else {
        free(from);
        free(to);
      }
    }
  unsigned words[64];
  OK(cuMemAlloc(&p, sizeof words));
  OK(cuMemsetD32(p, 0x01020304, 64));
  OK(cuMemsetD8(p + 4, 0xff, 4));
  OK(cuMemsetD16(p + 8, 0xabcd, 2));
  OK(cuMemcpyDtoH(words, p, sizeof words));
  printf("%08x %08x %08x %08x\n", words[0], words[1], words[2], words[3]);
  unsigned type = 0;
  CUdeviceptr base = 0;
  size_t bytes = 0;
  SHOW(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 17));
  printf("memory type %u\n", type);
  SHOW(cuMemGetAddressRange(&base, &bytes, p + 100));
  printf("range %d %zu\n", base == p, bytes);
  SHOW(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)words));
  SHOW(cuMemAlloc(&base, 0));
  SHOW(cuMemAlloc(0, 16));
  SHOW(cuMemFree(p + 8));
  SHOW(cuMemFree(p));
  SHOW(cuMemFree(p));
  SHOW(cuMemcpyHtoD(0x10, words, 4));
  SHOW(cuMemsetD32(0x10, 1, 1));
  SHOW(cuMemFreeHost(words));
  CUdeviceptr global;
  SHOW(cuModuleGetGlobal(&global, &bytes, module, "counter"));
  OK(cuMemcpyDtoH(words, global, 4));
  printf("global %u of %zu bytes\n", words[0], bytes);
  SHOW(cuModuleGetGlobal(&global, &bytes, module, "absent"));

  /* Calls without a stream have written host memory when they return. */
  unsigned char* mapped;
  CUdeviceptr seen;
  OK(cuMemHostAlloc((void**)&mapped, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
  OK(cuMemHostGetDevicePointer(&seen, mapped, 0));
  memset(mapped, 1, 4096);
  OK(cuMemsetD8(seen, 0xab, 4096));
  printf("set: %x %x\n", mapped[0], mapped[4095]);
  OK(cuMemsetD2D32(seen, 64, 0x01020304, 4, 8));
  printf("set in rows: %x %x\n", mapped[64], mapped[16]);
  OK(cuMemFreeHost(mapped));
  return 0;
}
