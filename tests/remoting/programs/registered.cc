// A program for any release of NVIDIA's runtime. It registers its kernels itself, as nvcc's output
// does, because one nvcc does not support all releases.
#include <cuda_runtime_api.h>

#include "vector_types.h"

__asm__(".section .rodata\n.balign 16\nkernels: .incbin \"" KERNELS "\"\n.text");
extern "C" const char kernels[];
extern "C" {
void** __cudaRegisterFatBinary(void* wrapper);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaUnregisterFatBinary(void** handle);
void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name,
                            int limit, void* tid, void* bid, void* bdim, void* gdim, int* warp);
void __cudaRegisterVar(void** handle, char* host, char* device, const char* name, int external,
                       size_t bytes, int constant, int global);
}

static struct {
  int magic = 0x466243b1, version = 1;
  const void* data = kernels;
  void* more = nullptr;
} wrapper;
static float factors[4];
static int counter[16];
static void scale() {}
static void wide() {}
struct Wide {
  char c;
  double d[5];
};

static void launch_scale(cudaStream_t stream, float* p, float k) {
  int n = 256;
  void* arguments[] = {&p, &k, &n};
  cudaLaunchKernel((const void*)scale, {2, 1, 1}, {128, 1, 1}, arguments, 0, stream);
}
static void launch_wide(int* out) {
  Wide w{};
  short s = 3;
  float4 f{1, 2, 3, 4};
  void* arguments[] = {&w, &s, &f, &out};
  cudaLaunchKernel((const void*)wide, {1, 1, 1}, {1, 1, 1}, arguments, 0, nullptr);
}
#define FACTORS ((const void*)factors)
#define COUNTER ((const void*)counter)
#define SCALE ((const void*)scale)
#include "runtime_calls.h"

static struct Registration {
  void** handle = __cudaRegisterFatBinary(&wrapper);
  Registration() {
    __cudaRegisterFunction(handle, (const char*)scale, (char*)"scale", "scale", -1, nullptr,
                           nullptr, nullptr, nullptr, nullptr);
    __cudaRegisterFunction(handle, (const char*)wide, (char*)"wide", "wide", -1, nullptr, nullptr,
                           nullptr, nullptr, nullptr);
    __cudaRegisterVar(handle, (char*)factors, (char*)"factors", "factors", 0, sizeof factors, 1, 0);
    __cudaRegisterVar(handle, (char*)counter, (char*)"counter", "counter", 0, sizeof counter, 0, 0);
    __cudaRegisterFatBinaryEnd(handle);
  }
  ~Registration() { __cudaUnregisterFatBinary(handle); }
} registration;
