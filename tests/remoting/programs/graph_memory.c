/* Graph nodes that allocate and free memory: added by the program and captured. */
#include "check.h"

enum { N = 4096 };
static CUstream s;
static CUdevice device;

static CUDA_MEM_ALLOC_NODE_PARAMS allocation(size_t bytes) {
  CUDA_MEM_ALLOC_NODE_PARAMS p = {0};
  p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.bytesize = bytes;
  return p;
}

static CUgraphNode add_bump(CUgraph g, CUgraphNode after, CUdeviceptr p) {
  CUgraphNode n;
  unsigned count = N, v = 5, rounds = 1;
  void* params[] = {&p, &count, &v, &rounds};
  CUDA_KERNEL_NODE_PARAMS k = {0};
  k.func = bump;
  k.gridDimX = N / 256;
  k.gridDimY = k.gridDimZ = k.blockDimY = k.blockDimZ = 1;
  k.blockDimX = 256;
  k.kernelParams = params;
  OK(cuGraphAddKernelNode(&n, g, &after, 1, &k));
  return n;
}

static CUgraphNode add_fill(CUgraph g, CUgraphNode after, CUdeviceptr p, unsigned v) {
  CUgraphNode n;
  CUDA_MEMSET_NODE_PARAMS m = {0};
  m.dst = p;
  m.value = v;
  m.elementSize = 4;
  m.width = N;
  m.height = 1;
  OK(cuGraphAddMemsetNode(&n, g, &after, 1, &m, context));
  return n;
}

static void show_words(const char* what, CUdeviceptr p) {
  unsigned first, last;
  OK(cuMemcpyDtoH(&first, p, 4));
  OK(cuMemcpyDtoH(&last, p + (N - 1) * 4, 4));
  printf("%s: %u %u\n", what, first, last);
}

static void show_usage(const char* what) {
  cuuint64_t used = 1, reserved = 1, high = 1;
  OK(cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
  OK(cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved));
  OK(cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &high));
  printf("%s: used %d, reserved %d, high %d\n", what, used > 0, reserved > 0, high > 0);
}

/* A graph that allocates, uses and frees memory, and leaves its result in other memory. */
static void freed_inside(void) {
  CUgraph g, copy;
  CUgraphNode alloc, fill, run, out, end, other;
  CUgraphNodeType type;
  CUgraphExec e, second;
  CUdeviceptr result, freed = 0;
  OK(cuMemAlloc(&result, N * 4));
  OK(cuGraphCreate(&g, 0));
  CUDA_MEM_ALLOC_NODE_PARAMS p = allocation(N * 4), q;
  SHOW(cuGraphAddMemAllocNode(&alloc, g, 0, 0, &p));
  printf("address %d\n", p.dptr != 0);
  fill = add_fill(g, alloc, p.dptr, 7);
  run = add_bump(g, fill, p.dptr);
  CUDA_MEMCPY3D c = {0};
  c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  c.srcDevice = p.dptr;
  c.dstDevice = result;
  c.WidthInBytes = N * 4;
  c.Height = c.Depth = 1;
  OK(cuGraphAddMemcpyNode(&out, g, &run, 1, &c, context));
  SHOW(cuGraphAddMemFreeNode(&end, g, &out, 1, p.dptr));
  SHOW(cuGraphAddMemFreeNode(&other, g, &out, 1, p.dptr));
  SHOW(cuGraphAddMemFreeNode(&other, g, &out, 1, result));
  OK(cuGraphNodeGetType(alloc, &type));
  printf("type %d", (int)type);
  OK(cuGraphNodeGetType(end, &type));
  printf(" %d\n", (int)type);
  SHOW(cuGraphMemAllocNodeGetParams(alloc, &q));
  SHOW(cuGraphMemFreeNodeGetParams(end, &freed));
  SHOW(cuGraphMemFreeNodeGetParams(alloc, &freed));
  SHOW(cuGraphMemAllocNodeGetParams(run, &q));
  printf("parameters %d %d %d\n", q.dptr == p.dptr, q.bytesize == N * 4, freed == p.dptr);
  SHOW(cuGraphClone(&copy, g));
  SHOW(cuGraphDestroyNode(run));
  SHOW(cuGraphRemoveDependencies(g, &alloc, &fill, 0, 1));
  OK(cuGraphInstantiate(&e, g, 0));
  SHOW(cuGraphInstantiate(&second, g, 0));
  for (int i = 0; i < 3; ++i) {
    OK(cuMemsetD32(result, 0, N));
    SHOW(cuGraphLaunch(e, s));
    OK(cuStreamSynchronize(s));
    show_words("result", result);
  }
  SHOW(cuMemFree(p.dptr));
  show_usage("in use");
  OK(cuGraphExecDestroy(e));
  OK(cuGraphDestroy(g));
  SHOW(cuMemFree(p.dptr));
  OK(cuMemFree(result));
}

/* Memory that outlives its graph. */
static void freed_outside(void) {
  CUgraph g;
  CUgraphNode alloc;
  CUgraphExec e;
  CUDA_MEM_ALLOC_NODE_PARAMS p = allocation(N * 4);
  OK(cuGraphCreate(&g, 0));
  OK(cuGraphAddMemAllocNode(&alloc, g, 0, 0, &p));
  add_fill(g, alloc, p.dptr, 3);
  OK(cuGraphInstantiate(&e, g, 0));
  OK(cuGraphLaunch(e, s));
  OK(cuStreamSynchronize(s));
  show_words("memory of a graph", p.dptr);
  SHOW(cuGraphLaunch(e, s));
  SHOW(cuMemFreeAsync(p.dptr, s));
  SHOW(cuMemFreeAsync(p.dptr, s));
  SHOW(cuGraphLaunch(e, s));
  OK(cuGraphExecDestroy(e));
  OK(cuGraphDestroy(g));
  OK(cuStreamSynchronize(s));
  show_words("after its graph", p.dptr);
  SHOW(cuMemFree(p.dptr));
  SHOW(cuMemFree(p.dptr));
}

/* One graph allocates, another one frees; AUTO_FREE_ON_LAUNCH frees before each launch. */
static void two_graphs(void) {
  CUgraph g, h;
  CUgraphNode alloc, end;
  CUgraphExec e, f;
  CUDA_MEM_ALLOC_NODE_PARAMS p = allocation(1 << 20);
  OK(cuGraphCreate(&g, 0));
  OK(cuGraphCreate(&h, 0));
  OK(cuGraphAddMemAllocNode(&alloc, g, 0, 0, &p));
  add_fill(g, alloc, p.dptr, 1);
  OK(cuGraphAddMemFreeNode(&end, h, 0, 0, p.dptr));
  OK(cuGraphInstantiate(&e, g, 0));
  OK(cuGraphInstantiate(&f, h, 0));
  SHOW(cuGraphLaunch(f, s));
  for (int i = 0; i < 2; ++i) {
    SHOW(cuGraphLaunch(e, s));
    SHOW(cuGraphLaunch(f, s));
  }
  OK(cuStreamSynchronize(s));
  OK(cuGraphExecDestroy(e));
  OK(cuGraphInstantiate(&e, g, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
  for (int i = 0; i < 3; ++i) SHOW(cuGraphLaunch(e, s));
  OK(cuStreamSynchronize(s));
  SHOW(cuMemFree(p.dptr));
  OK(cuGraphExecDestroy(e));
  OK(cuGraphExecDestroy(f));
  OK(cuGraphDestroy(g));
  OK(cuGraphDestroy(h));
}

static void captured(void) {
  CUgraph g;
  CUgraphExec e;
  CUgraphNode nodes[8];
  CUgraphNodeType type;
  CUdeviceptr inside, outside, result, zero = 5;
  size_t count = 8;
  OK(cuMemAlloc(&result, N * 4));
  OK(cuMemAllocAsync(&outside, 4096, s));
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  SHOW(cuMemAllocAsync(&inside, N * 4, s));
  SHOW(cuMemAllocAsync(&zero, 0, s));
  OK(cuMemsetD32Async(inside, 20, N, s));
  OK(launch_bump(inside, N, 2, 1, s));
  OK(cuMemcpyDtoDAsync(result, inside, N * 4, s));
  SHOW(cuMemFreeAsync(inside, s));
  OK(cuStreamEndCapture(s, &g));
  OK(cuGraphGetNodes(g, nodes, &count));
  for (size_t i = 0; i < count; ++i) {
    OK(cuGraphNodeGetType(nodes[i], &type));
    printf("node %d\n", (int)type);
  }
  OK(cuGraphInstantiate(&e, g, 0));
  for (int i = 0; i < 2; ++i) {
    OK(cuMemsetD32(result, 0, N));
    OK(cuGraphLaunch(e, s));
    OK(cuStreamSynchronize(s));
    show_words("captured", result);
  }
  OK(cuGraphExecDestroy(e));
  OK(cuGraphDestroy(g));
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
  SHOW(cuMemFreeAsync(outside, s));
  SHOW(cuStreamEndCapture(s, &g));
  OK(cuMemFreeAsync(outside, s));
  OK(cuMemFree(result));
}

static void invalid(void) {
  CUgraph g;
  CUgraphNode n, child;
  CUgraphNodeParams any = {0};
  CUDA_MEM_ALLOC_NODE_PARAMS p = allocation(0);
  OK(cuGraphCreate(&g, 0));
  SHOW(cuGraphAddMemAllocNode(&n, g, 0, 0, &p));
  p = allocation((size_t)1 << 50);
  SHOW(cuGraphAddMemAllocNode(&n, g, 0, 0, &p));
  p = allocation(4096);
  p.poolProps.location.id = 77;
  SHOW(cuGraphAddMemAllocNode(&n, g, 0, 0, &p));
  SHOW(cuGraphAddMemAllocNode(&n, g, 0, 0, 0));
  SHOW(cuGraphAddMemFreeNode(&n, g, 0, 0, 0));
  p = allocation(4096);
  any.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  memcpy(&any.alloc, &p, sizeof p);
  SHOW(cuGraphAddNode(&n, g, 0, 0, 0, &any));
  printf("address %d\n", any.alloc.dptr != 0);
  CUgraph parent;
  OK(cuGraphCreate(&parent, 0));
  SHOW(cuGraphAddChildGraphNode(&child, parent, 0, 0, g));
  OK(cuGraphDestroy(parent));
  OK(cuGraphDestroy(g));
}

int main(void) {
  cuuint64_t zero = 0, one = 1;
  create_context();
  OK(cuDeviceGet(&device, 0));
  OK(cuStreamCreate(&s, 0));
  show_usage("before");
  freed_inside();
  freed_outside();
  two_graphs();
  captured();
  invalid();
  show_usage("kept");
  SHOW(cuDeviceGraphMemTrim(device));
  show_usage("trimmed");
  SHOW(cuDeviceSetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &one));
  SHOW(cuDeviceSetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &zero));
  SHOW(cuDeviceSetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero));
  show_usage("reset");
  return 0;
}
