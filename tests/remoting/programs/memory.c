/* Copies of every size there and back, pinned and pageable; fills; what a pointer is; what is
 * refused at once. */
#include "check.h"

int main(void) {
  static const size_t sizes[] = {1, 3, 4095, 4096, 4097, 65536, 1 << 20, (4 << 20) + 5, 9 << 20};
  CUdeviceptr p;
  CUstream s;
  begin();
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
      if (!pinned) memset(from, 0xee, n); /* pageable bytes are taken before the call returns */
      OK(cuMemcpyDtoHAsync(to, p, n, s));
      OK(cuStreamSynchronize(s));
      int right = 1;
      for (size_t i = 0; i < n; ++i)
        right &= to[i] == (unsigned char)(i * 131 + n + (unsigned)pinned);
      printf("%zu bytes, pinned %d: %s\n", n, pinned, right ? "right" : "WRONG");
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
  SAY(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 17));
  printf("memory type %u\n", type);
  SAY(cuMemGetAddressRange(&base, &bytes, p + 100));
  printf("range %d %zu\n", base == p, bytes);
  SAY(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)words));
  SAY(cuMemAlloc(&base, 0));
  SAY(cuMemAlloc(0, 16));
  SAY(cuMemFree(p + 8));
  SAY(cuMemFree(p));
  SAY(cuMemFree(p));
  SAY(cuMemcpyHtoD(0x10, words, 4));
  SAY(cuMemsetD32(0x10, 1, 1));
  SAY(cuMemFreeHost(words));
  CUdeviceptr global;
  SAY(cuModuleGetGlobal(&global, &bytes, module, "counter"));
  OK(cuMemcpyDtoH(words, global, 4));
  printf("global %u of %zu bytes\n", words[0], bytes);
  SAY(cuModuleGetGlobal(&global, &bytes, module, "absent"));

  /* what the forms without a stream write to host memory is there when they return */
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
