/* Graph nodes by cuGraphNodeSetParams, kernel nodes with the parameters of CUDA 11, and occupancy
 * with shared memory. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "check.h"

enum { N = 1024 };
static CUstream s;
static CUdeviceptr p;
static unsigned calls;

static void count_call(void* by) {
  calls += *(unsigned*)by;
}

static CUDA_KERNEL_NODE_PARAMS kernel_params(void** params) {
  CUDA_KERNEL_NODE_PARAMS k = {0};
  k.func = bump;
  k.gridDimX = N / 256;
  k.gridDimY = k.gridDimZ = k.blockDimY = k.blockDimZ = 1;
  k.blockDimX = 256;
  k.kernelParams = params;
  return k;
}

static void launch_and_show(const char* what, CUgraphExec e) {
  unsigned first;
  OK(cuGraphLaunch(e, s));
  OK(cuStreamSynchronize(s));
  OK(cuMemcpyDtoH(&first, p, 4));
  printf("%s: %u, calls %u\n", what, first, calls);
}

static void generic_params(void) {
  unsigned n = N, v = 3, more = 40, rounds = 1, by = 1, by_ten = 10;
  void *params[] = {&p, &n, &v, &rounds}, *other[] = {&p, &n, &more, &rounds};
  CUDA_KERNEL_NODE_PARAMS k = kernel_params(params);
  CUDA_MEMSET_NODE_PARAMS m = {0};
  CUDA_HOST_NODE_PARAMS h = {count_call, &by};
  CUgraph g;
  CUgraphNode fill, run, call;
  CUgraphExec e;
  m.dst = p;
  m.value = 100;
  m.elementSize = 4;
  m.width = N;
  m.height = 1;
  OK(cuGraphCreate(&g, 0));
  OK(cuGraphAddMemsetNode(&fill, g, 0, 0, &m, context));
  OK(cuGraphAddKernelNode(&run, g, &fill, 1, &k));
  OK(cuGraphAddHostNode(&call, g, &run, 1, &h));
  OK(cuGraphInstantiate(&e, g, 0));
  launch_and_show("before", e);

  CUgraphNodeParams any = {0};
  any.type = CU_GRAPH_NODE_TYPE_KERNEL;
  k.kernelParams = other;
  memcpy(&any.kernel, &k, sizeof k);
  SHOW(cuGraphExecNodeSetParams(e, run, &any));
  launch_and_show("kernel of the executable graph", e);
  SHOW(cuGraphNodeSetParams(run, &any));
  memset(&any, 0, sizeof any);
  any.type = CU_GRAPH_NODE_TYPE_MEMSET;
  m.value = 500;
  memcpy(&any.memset, &m, sizeof m);
  SHOW(cuGraphNodeSetParams(fill, &any));
  memset(&any, 0, sizeof any);
  any.type = CU_GRAPH_NODE_TYPE_HOST;
  any.host.fn = count_call;
  any.host.userData = &by_ten;
  SHOW(cuGraphNodeSetParams(call, &any));
  SHOW(cuGraphNodeSetParams(run, &any));
  SHOW(cuGraphNodeSetParams(run, 0));
  OK(cuGraphExecDestroy(e));
  OK(cuGraphInstantiate(&e, g, 0));
  launch_and_show("after", e);
  OK(cuGraphExecDestroy(e));
  OK(cuGraphDestroy(g));
}

/* cuda.h names the second version; older programs call the first one. */
static void first_version(void) {
  CUresult (*add)(CUgraphNode*, CUgraph, const CUgraphNode*, size_t,
                  const CUDA_KERNEL_NODE_PARAMS_v1*) = dlsym(RTLD_DEFAULT, "cuGraphAddKernelNode");
  CUresult (*get)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v1*) =
      dlsym(RTLD_DEFAULT, "cuGraphKernelNodeGetParams");
  unsigned n = N, v = 8, rounds = 1;
  void* params[] = {&p, &n, &v, &rounds};
  CUDA_KERNEL_NODE_PARAMS k = kernel_params(params);
  CUDA_KERNEL_NODE_PARAMS_v1 old, read;
  CUgraph g;
  CUgraphNode run;
  CUgraphExec e;
  memcpy(&old, &k, sizeof old);
  OK(cuGraphCreate(&g, 0));
  SHOW(add(&run, g, 0, 0, &old));
  SHOW(get(run, &read));
  printf("grid %u, block %u\n", read.gridDimX, read.blockDimX);
  OK(cuGraphInstantiate(&e, g, 0));
  launch_and_show("first version", e);
  OK(cuGraphExecDestroy(e));
  OK(cuGraphDestroy(g));
}

static void occupancy(void) {
  int blocks = 0, grid = 0, block = 0;
  size_t bytes = 0;
  for (int threads = 32; threads <= 1024; threads *= 2) {
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bump, threads, 10000));
    printf("%d threads", threads);
    OK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, bump, blocks, threads));
    printf(": the memory is enough %d\n", bytes >= 10000);
  }
  SHOW(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, bump, 1000, 32));
  SHOW(cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, bump, 0, 1024, 0, 0));
  printf("grid %d, block %d\n", grid > 0, block > 0);
}

int main(void) {
  create_context();
  OK(cuStreamCreate(&s, 0));
  OK(cuMemAlloc(&p, N * 4));
  generic_params();
  first_version();
  occupancy();
  return 0;
}
