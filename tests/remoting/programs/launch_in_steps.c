/* The context and launch API of CUDA 3: attach and detach; shape, parameters and grid separately.
 */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include "check.h"

static void parameters(CUfunction f, CUdeviceptr p, unsigned n, unsigned v) {
  OK(cuParamSetv(f, 0, &p, sizeof p));
  OK(cuParamSeti(f, 8, n));
  OK(cuParamSeti(f, 12, v));
  OK(cuParamSeti(f, 16, 1));
  OK(cuParamSetSize(f, 20));
}

static unsigned first(CUdeviceptr p) {
  unsigned v;
  OK(cuMemcpyDtoH(&v, p, 4));
  return v;
}

int main(void) {
  CUcontext c, again;
  CUstream s;
  CUdeviceptr p;
  unsigned flags;
  int active;
  create_context();
  SHOW(cuCtxDetach(context)); /* as a release of the primary context */
  OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  printf("the primary context is active: %d\n", active);
  OK(cuCtxCreate(&c, 0, 0, 0));
  OK(cuModuleLoadData(&module, PTX));
  OK(cuModuleGetFunction(&bump, module, "bump"));
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&p, 1024));
  OK(cuMemsetD32(p, 1, 256));
  OK(cuFuncSetBlockShape(bump, 64, 1, 1));
  OK(cuFuncSetSharedSize(bump, 0));
  parameters(bump, p, 256, 5);
  OK(cuLaunchGrid(bump, 4, 1));
  printf("grid %u\n", first(p + 1020));
  OK(cuLaunch(bump));
  printf("one block %u %u\n", first(p), first(p + 1020));
  OK(cuLaunchGridAsync(bump, 4, 1, s));
  OK(cuStreamSynchronize(s));
  printf("in a stream %u\n", first(p + 1020));
  OK(cuParamSetf(bump, 12, 1.0f));
  OK(cuLaunchGrid(bump, 2, 1));
  printf("a float's bits %x\n", first(p));
  SHOW(cuFuncSetBlockShape(bump, 0, 1, 1));
  SHOW(cuParamSetSize(bump, 40000));
  SHOW(cuLaunchGrid(bump, 0, 1));
  OK(cuCtxAttach(&again, 0));
  printf("the same context %d\n", again == c);
  SHOW(cuCtxAttach(&again, 1));
  OK(cuCtxDetach(c));
  printf("still attached %u\n", first(p) != 0);
  OK(cuCtxDetach(c));
  return 0;
}
