/* Measure properties of the driver that the design of remoting depends on. Prints one JSON object.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK(call)                                     \
  do {                                               \
    CUresult r_ = (call);                            \
    if (r_) {                                        \
      fprintf(stderr, "%s -> %d\n", #call, (int)r_); \
      exit(1);                                       \
    }                                                \
  } while (0)
static const char* PTX =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry busy(.param .u64 p, .param .u32 rounds)\n{\n.reg .pred q;\n.reg .b32 r<4>;\n"
    ".reg .b64 d<2>;\n"
    "ld.param.u64 d1, [p];\nld.param.u32 r1, [rounds];\nmov.u32 r2, 1;\n"
    "MORE:\nmad.lo.u32 r2, r2, 1664525, 1013904223;\nsub.u32 r1, r1, 1;\nsetp.ne.u32 q, r1, 0;\n"
    "@q bra MORE;\nst.global.u32 [d1], r2;\nret;\n}\n";

/* Return the largest address reservation in GiB; the arena of a whole GPU must fit. */
static double largest_reservation(void) {
  size_t best = 0;
  for (size_t bytes = 1ull << 30; bytes <= 1ull << 45; bytes <<= 1) {
    CUdeviceptr p;
    if (cuMemAddressReserve(&p, bytes, 0, 0, 0)) break;
    OK(cuMemAddressFree(p, bytes));
    best = bytes;
  }
  return (double)best / (1 << 30);
}

static double context_memory(CUdevice d) {
  size_t before, after, total;
  CUcontext other;
  OK(cuMemGetInfo(&before, &total));
#if CUDA_VERSION >= 13000
  OK(cuCtxCreate(&other, NULL, 0, d));
#else
  OK(cuCtxCreate(&other, 0, d));
#endif
  OK(cuMemGetInfo(&after, &total));
  OK(cuCtxDestroy(other));
  return (double)(before - after) / (1 << 20);
}

/* Copy to pinned memory, then write a word there by the stream. Return how often the host reads the
 * word before the copied data; -1 if the GPU does not support stream writes. */
static int early_stream_writes(void) {
  enum { N = 1 << 20, ROUNDS = 2000 };
  CUdeviceptr from, word;
  volatile unsigned *host, *flag;
  int early = 0;
  CUstream s;
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&from, N * 4));
  OK(cuMemHostAlloc((void**)&host, N * 4, 0));
  OK(cuMemHostAlloc((void**)&flag, 4, CU_MEMHOSTALLOC_DEVICEMAP));
  OK(cuMemHostGetDevicePointer(&word, (void*)flag, 0));
  *flag = 0;
  for (unsigned i = 1; i <= ROUNDS; ++i) {
    OK(cuMemsetD32Async(from, i, N, s));
    OK(cuMemcpyDtoHAsync((void*)host, from, N * 4, s));
    if (cuStreamWriteValue32(s, word, i, 0)) return -1; /* not supported */
    while (*flag != i) {
    }
    early += host[N - 1] != i || host[0] != i;
  }
  OK(cuStreamDestroy(s));
  return early;
}

static CUfunction load(void) {
  CUmodule m;
  CUfunction f;
  OK(cuModuleLoadData(&m, PTX));
  OK(cuModuleGetFunction(&f, m, "busy"));
  return f;
}

static float event_time(CUfunction f, CUdeviceptr p) {
  CUevent a, b;
  unsigned rounds = 10000000;
  void* params[] = {&p, &rounds};
  float ms;
  OK(cuEventCreate(&a, 0));
  OK(cuEventCreate(&b, 0));
  OK(cuEventRecord(a, 0));
  OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, params, 0));
  OK(cuEventRecord(b, 0));
  OK(cuEventSynchronize(b));
  OK(cuEventElapsedTime(&ms, a, b));
  return ms;
}

static volatile int stop;
static CUdevice device;
static void* other_context(void* unused) {
  CUcontext c;
  CUdeviceptr p;
#if CUDA_VERSION >= 13000
  OK(cuCtxCreate(&c, NULL, 0, device));
#else
  OK(cuCtxCreate(&c, 0, device));
#endif
  CUfunction f = load();
  OK(cuMemAlloc(&p, 4));
  while (!stop) event_time(f, p);
  OK(cuCtxDestroy(c));
  return unused;
}

int main(void) {
  CUcontext c;
  CUdeviceptr p;
  pthread_t t;
  OK(cuInit(0));
  OK(cuDeviceGet(&device, 0));
  OK(cuDevicePrimaryCtxRetain(&c, device));
  OK(cuCtxSetCurrent(c));
  double reserved = largest_reservation(), context_mib = context_memory(device);
  int early = early_stream_writes();
  CUfunction f = load();
  OK(cuMemAlloc(&p, 4));
  event_time(f, p);
  double alone = event_time(f, p);
  pthread_create(&t, 0, other_context, 0);
  double beside = 0;
  for (int i = 0; i < 5; ++i) {
    double ms = event_time(f, p);
    if (ms > beside) beside = ms;
  }
  stop = 1;
  pthread_join(t, 0);
  printf(
      "{\"figures\": {\"largest address reservation\": %.0f, \"context memory\": %.1f, "
      "\"stream writes visible before the preceding copy\": %d, "
      "\"kernel event time, alone\": %.3f, "
      "\"kernel event time, beside another context\": %.3f}}\n",
      reserved, context_mib, early, alone, beside);
  fflush(stdout);
  return 0;
}
