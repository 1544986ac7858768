/* Launch small kernels for some seconds and print how many completed: share SECONDS. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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
    "ld.param.u64 d1, [p];\nld.param.u32 r1, [rounds];\nmov.u32 r2, %tid.x;\n"
    "MORE:\nmad.lo.u32 r2, r2, 1664525, 1013904223;\nsub.u32 r1, r1, 1;\nsetp.ne.u32 q, r1, 0;\n"
    "@q bra MORE;\nst.global.u32 [d1], r2;\nret;\n}\n";
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int n, char** v) {
  CUcontext c;
  CUmodule m;
  CUfunction f;
  CUdeviceptr p;
  int blocks = 1;
  unsigned rounds = 200000;
  void* params[] = {&p, &rounds};
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&c, 0));
  OK(cuCtxSetCurrent(c));
  OK(cuDeviceGetAttribute(&blocks, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  OK(cuModuleLoadData(&m, PTX));
  OK(cuModuleGetFunction(&f, m, "busy"));
  OK(cuMemAlloc(&p, 4));
  long done = 0;
  double end = now() + (n > 1 ? atof(v[1]) : 5);
  while (now() < end) {
    for (int i = 0; i < 4; ++i)
      OK(cuLaunchKernel(f, (unsigned)blocks, 1, 1, 32, 1, 1, 0, 0, params, 0));
    OK(cuCtxSynchronize());
    done += 4;
  }
  printf("%ld\n", done);
  return 0;
}
