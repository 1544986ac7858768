/* Kernels on two GPUs that wait for each other by pinned host memory, as those of collective
 * operations do without peer access.
 * Usage: peer_wait LAUNCHES. Prints a line after every launch.
 */
#include "check.h"

enum { GPUS = 2, MEETINGS = 4 };

/* Writes its step to `mine` and waits until the step of the other kernel is as high, again and
 * again. */
static const char* MEET =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry meet(.param .u64 mine, .param .u64 other, .param .u32 first, .param .u32 "
    "count)\n{\n"
    ".reg .pred %p<3>; .reg .b32 %r<5>; .reg .b64 %rd<3>;\n"
    "ld.param.u64 %rd1, [mine]; ld.param.u64 %rd2, [other];\n"
    "ld.param.u32 %r1, [first]; ld.param.u32 %r2, [count];\n"
    "STEP: add.u32 %r1, %r1, 1; st.release.sys.global.u32 [%rd1], %r1;\n"
    "WAIT: ld.acquire.sys.global.u32 %r3, [%rd2]; setp.lt.u32 %p1, %r3, %r1; @%p1 bra WAIT;\n"
    "sub.u32 %r2, %r2, 1; setp.ne.u32 %p2, %r2, 0; @%p2 bra STEP;\nret;\n}\n";

static CUcontext contexts[GPUS];
static CUfunction meet[GPUS];
static CUdeviceptr steps[GPUS];

static void prepare(int gpu) {
  CUdevice device;
  CUmodule code;
  OK(cuDeviceGet(&device, gpu));
  OK(cuDevicePrimaryCtxRetain(&contexts[gpu], device));
  OK(cuCtxSetCurrent(contexts[gpu]));
  OK(cuModuleLoadData(&code, MEET));
  OK(cuModuleGetFunction(&meet[gpu], code, "meet"));
}

int main(int argc, char** argv) {
  int launches = argc > 1 ? atoi(argv[1]) : 1;
  OK(cuInit(0));
  for (int g = 0; g < GPUS; ++g) prepare(g);
  unsigned* memory;
  OK(cuMemHostAlloc((void**)&memory, GPUS * sizeof *memory, CU_MEMHOSTALLOC_PORTABLE));
  memset(memory, 0, GPUS * sizeof *memory);
  for (int g = 0; g < GPUS; ++g) OK(cuMemHostGetDevicePointer(&steps[g], memory + g, 0));
  for (int i = 0; i < launches; ++i) {
    unsigned first = (unsigned)i * MEETINGS, count = MEETINGS;
    for (int g = 0; g < GPUS; ++g) {
      void* params[] = {&steps[g], &steps[1 - g], &first, &count};
      OK(cuCtxSetCurrent(contexts[g]));
      OK(cuLaunchKernel(meet[g], 1, 1, 1, 1, 1, 1, 0, 0, params, 0));
    }
    for (int g = 0; g < GPUS; ++g) {
      OK(cuCtxSetCurrent(contexts[g]));
      OK(cuCtxSynchronize());
    }
    printf("%d\n", i);
    fflush(stdout);
  }
  return 0;
}
