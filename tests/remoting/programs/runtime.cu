// A program with NVIDIA's runtime, compiled by nvcc. Its kernels do nothing on the null driver;
// every call must succeed.
#include <cuda_runtime.h>

#include "kernels.cu"

#define FACTORS ((const void*)&factors)
#define COUNTER ((const void*)&counter)
#define SCALE ((const void*)scale)
static void launch_scale(cudaStream_t stream, float* p, float k) {
  scale<<<2, 128, 0, stream>>>(p, k, 256);
}
static void launch_wide(int* out) {
  wide<<<1, 1>>>(Wide{}, 3, make_float4(1, 2, 3, 4), out);
}
#include "runtime_calls.h"
