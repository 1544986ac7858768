/* Launch kernels of one block without end: steady_launches ROUNDS [KERNELS OF A BATCH]
 *
 * Two batches are in the driver at any time, so that the GPU never waits for this program. Prints
 * "ready" when the first batch has completed. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

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
enum { BATCH = 32, BATCHES = 2 }; /* BATCH: unless it is given */

int main(int n, char** v) {
  CUcontext c;
  CUmodule m;
  CUfunction f;
  CUdeviceptr p;
  CUevent done[BATCHES];
  unsigned rounds = n > 1 ? (unsigned)atol(v[1]) : 1000;
  int size = n > 2 ? atoi(v[2]) : BATCH;
  void* params[] = {&p, &rounds};
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&c, 0));
  OK(cuCtxSetCurrent(c));
  OK(cuModuleLoadData(&m, PTX));
  OK(cuModuleGetFunction(&f, m, "busy"));
  OK(cuMemAlloc(&p, 4));
  for (int i = 0; i < BATCHES; ++i) OK(cuEventCreate(&done[i], CU_EVENT_DISABLE_TIMING));
  for (long batch = 0;; ++batch) {
    CUevent e = done[batch % BATCHES];
    if (batch >= BATCHES) OK(cuEventSynchronize(e));
    if (batch == BATCHES) {
      printf("ready\n");
      fflush(stdout);
    }
    for (int i = 0; i < size; ++i) OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, params, 0));
    OK(cuEventRecord(e, 0));
  }
}
