// Runs attacks in its session server (tests/null_driver/attacks.h) and prints the result of each: 0
// if it worked, an errno, or -1 if the session ended.
#include <cuda.h>
#include <stdio.h>

static const char kModule[] = ".version 8.0\n.target sm_90\n.address_size 64\n";

int main(int count, char** attacks) {
  CUdevice device;
  CUcontext context;
  CUmodule module;
  if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
      cuCtxSetCurrent(context) || cuModuleLoadData(&module, kModule))
    return 1;
  for (int i = 1; i < count; ++i) {
    char name[512];
    CUdeviceptr unused;
    size_t result = 0;
    snprintf(name, sizeof name, "attack:%s", attacks[i]);
    CUresult r = cuModuleGetGlobal(&unused, &result, module, name);
    printf("%d\n", r ? -1 : (int)result);
    fflush(stdout);
  }
  return 0;
}
