// The runtime calls of runtime.cu and registered.cc, which define launch functions and variables.
#include <cstdio>
#include <cstring>

static int failures = 0;
#define CHECK(call)                                                   \
  do {                                                                \
    cudaError_t e = (call);                                           \
    if (e) {                                                          \
      std::printf("%s: %d %s\n", #call, (int)e, cudaGetErrorName(e)); \
      failures++;                                                     \
    }                                                                 \
  } while (0)

static void CUDART_CB set_flag(void* p) {
  *(int*)p = 1;
}

static void other_memory_kinds(float* p, cudaStream_t stream) {
  static float pageable[4096];
  float *pitched = nullptr, *mapped = nullptr, *managed = nullptr, *from_pool = nullptr;
  size_t pitch = 0;
  CHECK(cudaMallocPitch((void**)&pitched, &pitch, 100, 20));
  CHECK(cudaMemset2D(pitched, pitch, 0, 100, 20));
  CHECK(cudaMemcpy2DAsync(pageable, 100, pitched, pitch, 100, 20, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaHostRegister(pageable, sizeof pageable, cudaHostRegisterMapped));
  CHECK(cudaHostGetDevicePointer((void**)&mapped, pageable, 0));
  CHECK(cudaHostUnregister(pageable));
  int can_be_managed = 0;
  CHECK(cudaDeviceGetAttribute(&can_be_managed, cudaDevAttrManagedMemory, 0));
  if (can_be_managed) CHECK(cudaMallocManaged((void**)&managed, 4096, cudaMemAttachGlobal));
  if (can_be_managed) CHECK(cudaMemcpyAsync(managed, p, 1024, cudaMemcpyDefault, stream));
  cudaMemPool_t pool;
  CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
  unsigned long long keep = 1 << 20;
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  CHECK(cudaMallocFromPoolAsync((void**)&from_pool, 4096, pool, stream));
  CHECK(cudaFreeAsync(from_pool, stream));
  CHECK(cudaStreamSynchronize(stream));
  cudaArray_t array;
  cudaChannelFormatDesc floats = {32, 0, 0, 0, cudaChannelFormatKindFloat};
  CHECK(cudaMallocArray(&array, &floats, 16, 16, 0));
  CHECK(cudaMemcpy2DToArray(array, 0, 0, pageable, 64, 64, 16, cudaMemcpyHostToDevice));
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc sampling{};
  cudaTextureObject_t texture;
  CHECK(cudaCreateTextureObject(&texture, &resource, &sampling, nullptr));
  CHECK(cudaDestroyTextureObject(texture));
  CHECK(cudaFreeArray(array));
  CHECK(cudaFree(pitched));
  CHECK(cudaFree(managed));
}

static void device_queries() {
  int value = 0, least = 0, greatest = 0;
  size_t bytes = 0;
  CHECK(cudaDriverGetVersion(&value));
  CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
  CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CHECK(cudaDeviceGetLimit(&bytes, cudaLimitStackSize));
  CHECK(cudaDeviceSetLimit(cudaLimitStackSize, bytes));
  char bus[32];
  CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
  CHECK(cudaDeviceGetByPCIBusId(&value, bus));
  cudaStream_t urgent;
  CHECK(cudaStreamCreateWithPriority(&urgent, cudaStreamNonBlocking, greatest));
  CHECK(cudaStreamQuery(urgent));
  CHECK(cudaStreamDestroy(urgent));
}

int main() {
  int count = 0, device = -1, version = 0;
  CHECK(cudaGetDeviceCount(&count));
  CHECK(cudaRuntimeGetVersion(&version));
  CHECK(cudaSetDevice(0));
  CHECK(cudaGetDevice(&device));
  cudaDeviceProp properties{};
  CHECK(cudaGetDeviceProperties(&properties, 0));
  float host[256], back[256], *p = nullptr, *q = nullptr, *pinned = nullptr;
  for (int i = 0; i < 256; ++i) host[i] = (float)i;
  CHECK(cudaMalloc((void**)&p, sizeof host));
  CHECK(cudaMallocHost((void**)&pinned, sizeof host));
  CHECK(cudaMemcpy(p, host, sizeof host, cudaMemcpyHostToDevice));
  float k[4] = {1, 2, 3, 4};
  int values[16] = {7};
  CHECK(cudaMemcpyToSymbol(FACTORS, k, sizeof k));
  CHECK(cudaMemcpyToSymbol(COUNTER, values, sizeof values));
  CHECK(cudaMemcpyFromSymbol(values, COUNTER, sizeof values));
  launch_scale(nullptr, p, 2.0f);
  CHECK(cudaGetLastError());
  launch_wide((int*)p);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  cudaStream_t stream;
  cudaEvent_t begin, end;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaEventRecord(begin, stream));
  CHECK(cudaMemcpyAsync(pinned, p, sizeof host, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaMallocAsync((void**)&q, 4096, stream));
  CHECK(cudaMemsetAsync(q, 1, 4096, stream));
  CHECK(cudaFreeAsync(q, stream));
  int called = 0;
  CHECK(cudaLaunchHostFunc(stream, set_flag, &called));
  CHECK(cudaEventRecord(end, stream));
  CHECK(cudaEventSynchronize(end));
  float ms = -1;
  CHECK(cudaEventElapsedTime(&ms, begin, end));
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  launch_scale(stream, p, 3.0f);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  cudaPointerAttributes attributes;
  CHECK(cudaPointerGetAttributes(&attributes, p));
  cudaFuncAttributes function;
  CHECK(cudaFuncGetAttributes(&function, SCALE));
  int blocks = 0;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, SCALE, 128, 0));
  other_memory_kinds(p, stream);
  device_queries();
  size_t free_bytes = 0, total = 0;
  CHECK(cudaMemGetInfo(&free_bytes, &total));
  CHECK(cudaMemcpy(back, p, sizeof back, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(p));
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaDeviceReset());
  std::printf("devices %d, %s, counter %d, host function %d, copies %s, failures %d\n", count,
              properties.name, values[0], called,
              !std::memcmp(host, back, sizeof host) ? "equal" : "differ", failures);
  return failures != 0;
}
