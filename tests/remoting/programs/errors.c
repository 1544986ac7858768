/* Invalid arguments are reported by the call itself; a fault of a kernel is sticky. */
#include "check.h"

int main(void) {
  CUdevice d;
  CUmodule m;
  CUfunction f;
  CUdeviceptr p;
  char log[512] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, (void*)sizeof log};
  SHOW(cuDeviceGetCount((int*)&d));
  create_context();
  SHOW(cuInit(1));
  SHOW(cuDeviceGet(&d, 99));
  SHOW(cuModuleGetFunction(&f, module, "absent"));
  SHOW(cuModuleLoadDataEx(
      &m,
      ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k() { frobnicate.u32 %r1; "
      "}\n@",
      2, options, values));
  printf("the log names a line: %d\n", strstr(log, "line") != 0);
  OK(cuMemAlloc(&p, 4096));
  unsigned n = 16, v = 1, rounds = 1;
  void* params[] = {&p, &n, &v, &rounds};
  SHOW(cuLaunchKernel(bump, 0, 1, 1, 32, 1, 1, 0, 0, params, 0));
  SHOW(cuLaunchKernel(bump, 1, 1, 1, 2048, 1, 1, 0, 0, params, 0));
  SHOW(cuLaunchKernel(bump, 1, 70000, 1, 32, 1, 1, 0, 0, params, 0));
  SHOW(cuLaunchKernel(bump, 1, 1, 1, 32, 1, 1, 1 << 20, 0, params, 0));
  SHOW(cuLaunchKernel(bump, 1, 1, 1, 32, 1, 1, 60000, 0, params, 0));
  SHOW(cuFuncSetAttribute(bump, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000));
  SHOW(cuLaunchKernel(bump, 1, 1, 1, 32, 1, 1, 60000, 0, params, 0));
  const char* name = "";
  SHOW(cuFuncGetName(&name, bump));
  printf("name %s\n", name);
  SHOW(cuFuncGetName(&name, 0));
  SHOW(cuFuncGetName(0, bump));
  SHOW(cuKernelGetName(&name, 0));
  SHOW(cuLaunchKernel(bump, 1, 1, 1, 32, 1, 1, 0, 0, params, 0));
  SHOW(cuCtxSynchronize());
  unsigned long long nowhere = 0x200000000000ull + (15ull << 40);
  void* wild_params[] = {&nowhere};
  SHOW(cuLaunchKernel(wild, 1, 1, 1, 1, 1, 1, 0, 0, wild_params, 0));
  SHOW(cuCtxSynchronize());
  SHOW(cuCtxSynchronize());
  SHOW(cuMemAlloc(&p, 16));
  return 0;
}
