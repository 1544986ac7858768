/* Immediate errors are immediate; a fault of a kernel is sticky. */
#include "check.h"

int main(void) {
  CUdevice d;
  CUmodule m;
  CUfunction f;
  CUdeviceptr p;
  char log[512] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, (void*)sizeof log};
  SAY(cuDeviceGetCount((int*)&d));
  begin();
  SAY(cuInit(1));
  SAY(cuDeviceGet(&d, 99));
  SAY(cuModuleGetFunction(&f, module, "absent"));
  SAY(cuModuleGetFunction(&f, (CUmodule)0x55, "bump"));
  SAY(cuModuleLoadDataEx(
      &m,
      ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k() { frobnicate.u32 %r1; }\n@",
      2, options, values));
  printf("the log names a line: %d\n", strstr(log, "line") != 0);
  OK(cuMemAlloc(&p, 4096));
  unsigned n = 16, v = 1, rounds = 1;
  void* params[] = {&p, &n, &v, &rounds};
  SAY(cuLaunchKernel(bump, 0, 1, 1, 32, 1, 1, 0, 0, params, 0));
  SAY(cuLaunchKernel(bump, 1, 1, 1, 2048, 1, 1, 0, 0, params, 0));
  SAY(cuLaunchKernel(bump, 1, 70000, 1, 32, 1, 1, 0, 0, params, 0));
  SAY(cuLaunchKernel(bump, 1, 1, 1, 32, 1, 1, 1 << 20, 0, params, 0));
  SAY(cuLaunchKernel((CUfunction)0x77, 1, 1, 1, 32, 1, 1, 0, 0, params, 0));
  SAY(cuLaunchKernel(bump, 1, 1, 1, 32, 1, 1, 0, (CUstream)0x99, params, 0));
  SAY(cuLaunchKernel(bump, 1, 1, 1, 32, 1, 1, 0, 0, params, 0));
  SAY(cuCtxSynchronize());
  unsigned long long nowhere = 0x200000000000ull + (15ull << 40);
  void* wild_params[] = {&nowhere};
  SAY(cuLaunchKernel(wild, 1, 1, 1, 1, 1, 1, 0, 0, wild_params, 0));
  SAY(cuCtxSynchronize());
  SAY(cuCtxSynchronize());
  SAY(cuMemAlloc(&p, 16));
  return 0;
}
