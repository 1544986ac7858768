// A program on NVIDIA's runtime, as nvcc makes them. Its kernels do nothing on the null driver; every call must succeed.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

__device__ int counter[16];
__constant__ float factors[4];
__global__ void scale(float* p, float k, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] *= k * factors[0]; }
struct Wide { char c; double d[5]; };
__global__ void wide(Wide w, short s, float4 f, int* out) { *out = (int)(w.d[0] + s + f.x); }

static int failures = 0;
#define CHECK(call) do { cudaError_t e = (call); if (e) { std::printf("%s: %d %s\n", #call, (int)e, cudaGetErrorName(e)); failures++; } } while (0)

static void CUDART_CB told(void* p) { *(int*)p = 1; }

int main() {
  int count = 0, device = -1, version = 0;
  CHECK(cudaGetDeviceCount(&count));
  CHECK(cudaRuntimeGetVersion(&version));
  CHECK(cudaSetDevice(0));
  CHECK(cudaGetDevice(&device));
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  float host[256], back[256], *p = nullptr, *q = nullptr, *pinned = nullptr;
  for (int i = 0; i < 256; ++i) host[i] = (float)i;
  CHECK(cudaMalloc(&p, sizeof host));
  CHECK(cudaMallocHost(&pinned, sizeof host));
  CHECK(cudaMemcpy(p, host, sizeof host, cudaMemcpyHostToDevice));
  float k[4] = {1, 2, 3, 4};
  int values[16] = {7};
  CHECK(cudaMemcpyToSymbol(factors, k, sizeof k));
  CHECK(cudaMemcpyToSymbol(counter, values, sizeof values));
  CHECK(cudaMemcpyFromSymbol(values, counter, sizeof values));
  scale<<<2, 128>>>(p, 2.0f, 256);
  CHECK(cudaGetLastError());
  wide<<<1, 1>>>(Wide{}, 3, make_float4(1, 2, 3, 4), (int*)p);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  cudaStream_t stream;
  cudaEvent_t begin, end;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaEventRecord(begin, stream));
  CHECK(cudaMemcpyAsync(pinned, p, sizeof host, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaMallocAsync(&q, 4096, stream));
  CHECK(cudaMemsetAsync(q, 1, 4096, stream));
  CHECK(cudaFreeAsync(q, stream));
  int seen = 0;
  CHECK(cudaLaunchHostFunc(stream, told, &seen));
  CHECK(cudaEventRecord(end, stream));
  CHECK(cudaEventSynchronize(end));
  float ms = -1;
  CHECK(cudaEventElapsedTime(&ms, begin, end));
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  scale<<<2, 128, 0, stream>>>(p, 3.0f, 256);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  cudaPointerAttributes attributes;
  CHECK(cudaPointerGetAttributes(&attributes, p));
  cudaFuncAttributes function;
  CHECK(cudaFuncGetAttributes(&function, scale));
  int blocks = 0;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale, 128, 0));
  size_t free_bytes = 0, total = 0;
  CHECK(cudaMemGetInfo(&free_bytes, &total));
  CHECK(cudaMemcpy(back, p, sizeof back, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(p));
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaDeviceReset());
  std::printf("devices %d, %s, counter %d, host function %d, copies %s, failures %d\n", count, properties.name, values[0], seen, !std::memcmp(host, back, sizeof host) ? "equal" : "differ", failures);
  return failures != 0;
}
