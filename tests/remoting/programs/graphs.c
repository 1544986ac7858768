/* Graphs with copies of host memory and host functions; parameter changes, child graphs, clones. */
#include "check.h"

static const char* ADD =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry add(.param .u64 p, .param .u32 k, .param .u32 n)\n{\n.reg .pred q;\n"
    ".reg .b32 r<6>;\n.reg .b64 d<4>;\n"
    "ld.param.u64 d1, [p];\nld.param.u32 r1, [k];\nld.param.u32 r2, [n];\nmov.u32 r3, %tid.x;\n"
    "setp.ge.u32 q, r3, r2;\n@q bra END;\n"
    "mul.wide.u32 d2, r3, 4;\nadd.u64 d3, d1, d2;\nld.global.u32 r4, [d3];\nadd.u32 r4, r4, r1;\n"
    "st.global.u32 [d3], r4;\nEND:\nret;\n}\n";

enum { N = 1000 };
static unsigned *in, *out; /* pinned: a copy of other memory may read it at the launch already */
static unsigned big[300000], big_out[300000];
static int called;

/* Read the result of the preceding copy and change the source of the following copy. */
static void CUDA_CB between(void* data) {
  (void)data;
  ++called;
  printf("between: out[1] is %u\n", out[1]);
  for (int i = 0; i < N; ++i) in[i] = out[i] * 10;
}

/* Every dependency has edge data, here of the default kind. */
static void show_capture_info(CUstream s) {
  CUstreamCaptureStatus status;
  const CUgraphNode* nodes = 0;
  const CUgraphEdgeData* edges = 0;
  size_t n = 0;
  OK(cuStreamGetCaptureInfo_v3(s, &status, 0, 0, &nodes, &edges, &n));
  printf("status %d, %zu dependencies", (int)status, n);
  for (size_t i = 0; i < n; ++i)
    printf(", type %d from port %d to %d", edges[i].type, edges[i].from_port, edges[i].to_port);
  printf("\n");
}

int main(void) {
  CUcontext c;
  CUmodule m;
  CUfunction f;
  CUstream s;
  CUdeviceptr p, q;
  CUgraph g, clone;
  CUgraphExec e;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&c, 0));
  OK(cuCtxSetCurrent(c));
  OK(cuModuleLoadData(&m, ADD));
  OK(cuModuleGetFunction(&f, m, "add"));
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&p, sizeof big));
  OK(cuMemHostAlloc((void**)&in, N * 4, 0));
  OK(cuMemHostAlloc((void**)&out, N * 4, 0));
  OK(cuMemAlloc(&q, N * 4));
  unsigned k = 5, n = N;
  void* params[] = {&p, &k, &n};

  /* captured: in, kernel, out, host function, in again, kernel, out */
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(cuMemcpyHtoDAsync(p, in, N * 4, s));
  OK(cuLaunchKernel(f, 1, 1, 1, 1024, 1, 1, 0, s, params, 0));
  OK(cuMemcpyDtoHAsync(out, p, N * 4, s));
  OK(cuLaunchHostFunc(s, between, 0));
  OK(cuMemcpyHtoDAsync(p, in, N * 4, s));
  OK(cuLaunchKernel(f, 1, 1, 1, 1024, 1, 1, 0, s, params, 0));
  OK(cuMemcpyDtoHAsync(out, p, N * 4, s));
  show_capture_info(s);
  OK(cuStreamEndCapture(s, &g));
  size_t nodes = 0, edges = 0;
  OK(cuGraphGetNodes(g, 0, &nodes));
  OK(cuGraphGetEdges(g, 0, 0, 0, &edges));
  printf("nodes %zu edges %zu\n", nodes, edges);
  OK(cuGraphInstantiate(&e, g, 0));
  for (int round = 0; round < 3; ++round) {
    for (unsigned i = 0; i < N; ++i)
      in[i] = i + 100 * (unsigned)round; /* the launch reads this, not the capture */
    OK(cuGraphLaunch(e, s));
    OK(cuStreamSynchronize(s));
    printf("round %d: %u %u %u, called %d\n", round, out[0], out[1], out[999 < N ? 999 : 0],
           called);
  }
  OK(cuGraphExecDestroy(e));

  /* Explicit nodes: large copy in, kernel, large copy out; then changed parameters in the
   * executable graph. */
  OK(cuGraphCreate(&clone, 0));
  CUDA_MEMCPY3D copy = {0};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = big;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = p;
  copy.WidthInBytes = sizeof big;
  copy.Height = copy.Depth = 1;
  CUgraphNode first, second, third;
  OK(cuGraphAddMemcpyNode(&first, clone, 0, 0, &copy, c));
  CUDA_KERNEL_NODE_PARAMS kernel = {0};
  kernel.func = f;
  kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
  kernel.blockDimX = 1024;
  kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = params;
  OK(cuGraphAddKernelNode(&second, clone, &first, 1, &kernel));
  CUDA_MEMCPY3D back = {0};
  back.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  back.srcDevice = p;
  back.dstMemoryType = CU_MEMORYTYPE_HOST;
  back.dstHost = big_out;
  back.WidthInBytes = sizeof big;
  back.Height = back.Depth = 1;
  OK(cuGraphAddMemcpyNode(&third, clone, &second, 1, &back, c));
  for (unsigned i = 0; i < 300000; ++i) big[i] = i;
  OK(cuGraphInstantiate(&e, clone, 0));
  OK(cuGraphLaunch(e, s));
  OK(cuStreamSynchronize(s));
  printf("large: %u %u %u %u\n", big_out[0], big_out[999], big_out[1000], big_out[299999]);
  CUDA_KERNEL_NODE_PARAMS seen;
  OK(cuGraphKernelNodeGetParams(second, &seen));
  printf("params: same function %d, block %u, k %u n %u\n", seen.func == f, seen.blockDimX,
         *(unsigned*)seen.kernelParams[1], *(unsigned*)seen.kernelParams[2]);
  k = 7;
  OK(cuGraphExecKernelNodeSetParams(e, second, &kernel));
  copy.srcHost = big + 1;
  copy.WidthInBytes = 4000;
  OK(cuGraphExecMemcpyNodeSetParams(e, first, &copy, c));
  OK(cuGraphLaunch(e, s));
  OK(cuStreamSynchronize(s));
  printf("changed: %u %u %u\n", big_out[0], big_out[999], big_out[1000]);
  CUDA_MEMCPY3D shown;
  OK(cuGraphMemcpyNodeGetParams(third, &shown));
  printf("copy: same host %d, width %zu\n", shown.dstHost == (void*)big_out, shown.WidthInBytes);

  /* A child graph, and a clone of the whole graph. */
  CUgraph whole, again;
  CUgraphNode child;
  OK(cuGraphCreate(&whole, 0));
  OK(cuGraphAddChildGraphNode(&child, whole, 0, 0, clone));
  OK(cuGraphClone(&again, whole));
  CUgraphExec e2;
  OK(cuGraphInstantiate(&e2, again, 0));
  for (unsigned i = 0; i < 300000; ++i) big_out[i] = 0;
  OK(cuGraphLaunch(e2, s));
  OK(cuStreamSynchronize(s));
  printf("child: %u %u\n", big_out[1], big_out[299999]);

  /* Errors are reported immediately. */
  SHOW(cuGraphAddDependencies(whole, &child, &child, 0, 1));
  OK(cuGraphExecDestroy(e));
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  SHOW(cuStreamSynchronize(s));
  CUgraph lost = 0;
  SHOW(cuStreamEndCapture(s, &lost));
  SHOW(cuStreamEndCapture(s, &lost));
  OK(cuGraphDestroy(whole));
  OK(cuGraphDestroy(again));
  OK(cuGraphDestroy(g));
  OK(cuCtxSynchronize());
  return 0;
}
