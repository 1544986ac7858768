// The device code of runtime.cu and registered.cc.
extern "C" {
__device__ int counter[16];
__constant__ float factors[4];
__global__ void scale(float* p, float k, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] *= k * factors[0];
}
struct Wide {
  char c;
  double d[5];
};
__global__ void wide(Wide w, short s, float4 f, int* out) {
  *out = (int)(w.d[0] + s + f.x);
}
}
