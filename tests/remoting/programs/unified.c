/* Pinned memory by its own address in kernels, fills, copies and graphs: unified addressing. */
#include <semaphore.h>

#include "check.h"

enum { N = 5000 };
static unsigned* pinned;
static CUdeviceptr device, as_device;
static CUstream s;
static sem_t gate;

static void show(const char* what) {
  printf("%s: %u %u %u\n", what, pinned[0], pinned[N / 2], pinned[N - 1]);
}

static void launches(void) {
  for (int i = 0; i < N; ++i) pinned[i] = (unsigned)i;
  OK(launch_bump(as_device, N, 3, 1, s));
  OK(cuStreamSynchronize(s));
  show("kernel");
  pinned[N / 2] = 9;
  OK(launch_bump(as_device + 4, N - 1, 1, 1, s));
  CUresult r;
  while ((r = cuStreamQuery(s)) == CUDA_ERROR_NOT_READY) {
  }
  OK(r);
  show("kernel, queried");

  CUdeviceptr p = as_device;
  struct {
    CUdeviceptr p;
    unsigned n, v, rounds;
  } block = {p, N, 2, 1};
  size_t bytes = 20;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  OK(cuLaunchKernel(bump, N / 256 + 1, 1, 1, 256, 1, 1, 0, s, 0, extra));
  OK(cuCtxSynchronize());
  show("kernel with a block of parameters");
}

/* A packed parameter, whose pointer is at no multiple of eight bytes. */
static void packed_parameter(void) {
  static const char* ptx =
      ".version 7.0\n.target sm_70\n.address_size 64\n"
      ".visible .entry store(.param .u32 k, .param .align 1 .b8 v[12])\n"
      "{ .reg .b64 %p; .reg .b32 %k, %low, %high;\n"
      "ld.param.u32 %k, [k]; ld.param.u32 %low, [v]; ld.param.u32 %high, [v+4];\n"
      "mov.b64 %p, {%low, %high}; st.global.u32 [%p], %k; ret; }\n";
  struct __attribute__((packed)) {
    unsigned* p;
    unsigned n;
  } v;
  unsigned k = 77, *target;
  CUmodule m;
  CUfunction f;
  OK(cuMemHostAlloc((void**)&target, 64, 0));
  target[0] = 0;
  v.p = target;
  v.n = 0;
  void* params[] = {&k, &v};
  OK(cuModuleLoadData(&m, ptx));
  OK(cuModuleGetFunction(&f, m, "store"));
  OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, params, 0));
  OK(cuStreamSynchronize(s));
  printf("packed parameter: %u\n", target[0]);
  OK(cuMemFreeHost(target));
}

static void wait_at_gate(void* unused) {
  (void)unused;
  sem_wait(&gate);
}

/* The end of one stream does not hide the results of another. */
static void two_streams(void) {
  CUstream other;
  CUevent done;
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&done, 0));
  OK(cuLaunchHostFunc(other, wait_at_gate, 0));
  OK(launch_bump(as_device, N / 2, 5, 2, other));
  OK(cuEventRecord(done, other));
  OK(launch_bump(as_device + (N / 2 + 1) * 4, N / 2 - 1, 5, 1, s));
  OK(cuStreamSynchronize(s));
  printf("first stream: %u\n", pinned[N - 1]);
  sem_post(&gate);
  CUresult r;
  while ((r = cuEventQuery(done)) == CUDA_ERROR_NOT_READY) {
  }
  OK(r);
  show("both streams");
  OK(cuEventDestroy(done));
  OK(cuStreamDestroy(other));
}

/* Copies read and write what kernels of the same stream do, without a wait between them. */
static void copies(void) {
  unsigned words[N], rows[4][8];
  memset(pinned, 0, N * 4);
  OK(launch_bump(as_device, N, 7, 20000, s));
  OK(cuMemcpyHtoDAsync(device, pinned, N * 4, s));
  OK(cuStreamSynchronize(s));
  OK(cuMemcpyDtoH(words, device, N * 4));
  printf("copied in: %u %u\n", words[0], words[N - 1]);
  OK(cuMemsetD32Async(device, 40, N, s));
  OK(cuMemcpyDtoHAsync(pinned, device, N * 4, s));
  OK(launch_bump(as_device, N, 2, 1, s));
  OK(cuStreamSynchronize(s));
  show("copied out");
  OK(launch_bump(as_device, N, 1, 20000, s));
  CUDA_MEMCPY2D c = {0};
  c.srcMemoryType = CU_MEMORYTYPE_HOST;
  c.srcHost = pinned;
  c.srcPitch = 64;
  c.srcY = 1;
  c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  c.dstDevice = device;
  c.dstPitch = 32;
  c.WidthInBytes = 32;
  c.Height = 4;
  OK(cuMemcpy2DAsync(&c, s));
  OK(cuMemcpyDtoH(rows, device, sizeof rows));
  printf("copied rows: %u %u\n", rows[0][0], rows[3][7]);
  OK(cuStreamSynchronize(s));

  OK(cuMemsetD32(device, 11, N));
  OK(cuMemcpyDtoD(as_device, device, N * 4));
  show("between devices");
  for (int i = 0; i < N; ++i) words[i] = (unsigned)i * 2;
  OK(cuMemcpyHtoD(as_device, words, N * 4));
  show("to device");
  memset(words, 0, sizeof words);
  OK(cuMemcpyDtoH(words, as_device, N * 4));
  printf("to host: %u %u\n", words[1], words[N - 1]);
  OK(cuMemcpy(as_device, device, 8));
  show("by address");
}

static void fills(void) {
  OK(cuMemsetD32(as_device, 0x01020304, N));
  show("set");
  OK(cuMemsetD8Async(as_device + 4, 0xff, (N - 2) * 4, s));
  OK(cuStreamWriteValue32(s, as_device, 77, 0));
  OK(cuStreamSynchronize(s));
  show("set in a stream");
}

static void graphs(void) {
  CUgraph g;
  CUgraphNode n;
  CUgraphExec e;
  unsigned count = N, v = 1, rounds = 1;
  void* params[] = {&as_device, &count, &v, &rounds};
  CUDA_KERNEL_NODE_PARAMS k = {0};
  k.func = bump;
  k.gridDimX = N / 256 + 1;
  k.gridDimY = k.gridDimZ = k.blockDimY = k.blockDimZ = 1;
  k.blockDimX = 256;
  k.kernelParams = params;
  OK(cuGraphCreate(&g, 0));
  OK(cuGraphAddKernelNode(&n, g, 0, 0, &k));
  OK(cuGraphInstantiate(&e, g, 0));
  for (int i = 0; i < 3; ++i) {
    pinned[0] = 100;
    OK(cuGraphLaunch(e, s));
    OK(cuStreamSynchronize(s));
    show("graph");
  }
  OK(cuGraphExecDestroy(e));
  OK(cuGraphDestroy(g));
}

/* Nodes of the other types, each with memory that no kernel has seen. */
static void graph_nodes(void) {
  CUgraph g;
  CUgraphNode n;
  CUgraphExec e;
  unsigned* block[3];
  for (int i = 0; i < 3; ++i) {
    OK(cuMemHostAlloc((void**)&block[i], 64, 0));
    memset(block[i], 0, 64);
  }
  OK(cuGraphCreate(&g, 0));
  CUDA_MEMSET_NODE_PARAMS fill = {0};
  fill.dst = (CUdeviceptr)block[0];
  fill.value = 7;
  fill.elementSize = 4;
  fill.width = 16;
  fill.height = 1;
  OK(cuGraphAddMemsetNode(&n, g, 0, 0, &fill, context));
  CUDA_MEMCPY3D copy = {0};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = (CUdeviceptr)block[0];
  copy.dstDevice = (CUdeviceptr)block[1];
  copy.WidthInBytes = 64;
  copy.Height = copy.Depth = 1;
  OK(cuGraphAddMemcpyNode(&n, g, &n, 1, &copy, context));
  CUstreamBatchMemOpParams write = {0};
  write.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  write.writeValue.address = (CUdeviceptr)block[2];
  write.writeValue.value = 9;
  CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {context, 1, &write, 0};
  OK(cuGraphAddBatchMemOpNode(&n, g, &n, 1, &batch));
  OK(cuGraphInstantiate(&e, g, 0));
  OK(cuGraphLaunch(e, s));
  OK(cuStreamSynchronize(s));
  printf("nodes: %u %u %u\n", block[0][15], block[1][15], block[2][0]);
  OK(cuGraphExecDestroy(e));
  OK(cuGraphDestroy(g));
  for (int i = 0; i < 3; ++i) OK(cuMemFreeHost(block[i]));
}

/* A block that kernels see first in a capture. */
static void captured(void) {
  unsigned* other;
  CUgraph g;
  CUgraphExec e;
  OK(cuMemHostAlloc((void**)&other, 4096, 0));
  memset(other, 0, 4096);
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(launch_bump((CUdeviceptr)other, 1024, 6, 1, s));
  other[7] = 50; /* changed before the next captured call */
  OK(launch_bump((CUdeviceptr)other, 1024, 1, 1, s));
  OK(cuStreamEndCapture(s, &g));
  OK(cuGraphInstantiate(&e, g, 0));
  other[5] = 1000;
  OK(cuGraphLaunch(e, s));
  OK(cuStreamSynchronize(s));
  printf("captured: %u %u\n", other[5], other[1023]);
  OK(cuGraphExecDestroy(e));
  OK(cuGraphDestroy(g));
  OK(cuMemFreeHost(other));
}

static void attributes(void) {
  CUdeviceptr seen = 0, base = 0;
  void* host = 0;
  unsigned type = 0, flags = 9;
  SHOW(cuPointerGetAttribute(&seen, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, as_device + 8));
  SHOW(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, as_device + 8));
  SHOW(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, as_device));
  SHOW(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, as_device + 8));
  printf("%d %d %u %d\n", seen == as_device + 8, host == pinned + 2, type, base == as_device);
  SHOW(cuMemHostGetDevicePointer(&seen, pinned, 0));
  SHOW(cuMemHostGetFlags(&flags, pinned));
  printf("%d %u\n", seen == as_device, flags);
}

int main(void) {
  create_context();
  sem_init(&gate, 0, 0);
  OK(cuStreamCreate(&s, 0));
  OK(cuMemAlloc(&device, N * 4));
  OK(cuMemHostAlloc((void**)&pinned, N * 4, CU_MEMHOSTALLOC_PORTABLE));
  as_device = (CUdeviceptr)pinned;
  launches();
  packed_parameter();
  two_streams();
  copies();
  fills();
  graphs();
  graph_nodes();
  captured();
  attributes();
  for (int i = 0; i < 3; ++i) {
    unsigned* again;
    OK(cuMemHostAlloc((void**)&again, 64, 0));
    memset(again, 0, 64);
    OK(launch_bump((CUdeviceptr)again, 16, 4, 1, 0));
    OK(cuMemFreeHost(again));
  }
  OK(cuMemFreeHost(pinned));
  OK(cuDevicePrimaryCtxReset(0));
  printf("done\n");
  return 0;
}
