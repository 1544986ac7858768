/* Attributes of streams, kernel nodes, kernels and mappings, and a graph as text. */
#include "check.h"

static void stream_attributes(void) {
  CUstream a, b;
  CUstreamAttrValue v;
  OK(cuStreamCreateWithPriority(&a, 0, -1));
  OK(cuStreamCreate(&b, 0));
  memset(&v, 0, sizeof v);
  v.syncPolicy = CU_SYNC_POLICY_YIELD;
  OK(cuStreamSetAttribute(a, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &v));
  OK(cuStreamCopyAttributes(b, a));
  memset(&v, 0, sizeof v);
  OK(cuStreamGetAttribute(b, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &v));
  printf("policy %d\n", (int)v.syncPolicy);
  if (v.syncPolicy != CU_SYNC_POLICY_YIELD) puts("WRONG: the attribute is not copied");
  OK(cuStreamGetAttribute(a, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v));
  printf("priority %d\n", v.priority);
  SHOW(cuStreamSetAttribute(a, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &v));
  unsigned long long one, other;
  CUdevice device = 9;
  OK(cuStreamGetId(a, &one));
  OK(cuStreamGetId(b, &other));
  OK(cuStreamGetDevice(a, &device));
  printf("device %d, ids %s\n", device, one == other ? "equal" : "differ");
}

static CUgraphNode add_kernel(CUgraph g, CUdeviceptr p, const CUgraphNode* after) {
  unsigned n = 16, v = 1, rounds = 1;
  void* params[] = {&p, &n, &v, &rounds};
  CUDA_KERNEL_NODE_PARAMS k;
  CUgraphNode node;
  memset(&k, 0, sizeof k);
  k.func = bump;
  k.gridDimX = k.gridDimY = k.gridDimZ = k.blockDimY = k.blockDimZ = 1;
  k.blockDimX = 16;
  k.kernelParams = params;
  OK(cuGraphAddKernelNode(&node, g, after, after ? 1 : 0, &k));
  return node;
}

static void print_graph(CUgraph g) {
  char path[] = "/tmp/busbar-graph-XXXXXX", line[256];
  unsigned lines = 0, edges = 0, kernels = 0;
  FILE* f;
  if (!mkdtemp(path)) exit(1);
  SHOW(cuGraphDebugDotPrint(g, path, 0)); /* a folder */
  if (remove(path)) exit(1);
  OK(cuGraphDebugDotPrint(g, path, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
  printf("no graph -> error %d\n", cuGraphDebugDotPrint(0, path, 0) != 0);
  SHOW(cuGraphDebugDotPrint(g, 0, 0));
  f = fopen(path, "r");
  if (!f) exit(1);
  for (; fgets(line, sizeof line, f); ++lines) {
    edges += strstr(line, "->") != 0;
    kernels += strstr(line, "bump") != 0;
  }
  fclose(f);
  remove(path);
  printf("text: %u lines, %u edges, %u kernels\n", lines, edges, kernels);
  if (edges != 1 || kernels != 2) puts("WRONG: the text is not the graph");
}

static void kernel_node_attributes(CUdeviceptr p) {
  CUgraph g;
  CUgraphNode a, b;
  CUgraphExec e;
  CUkernelNodeAttrValue v;
  unsigned values[16];
  OK(cuGraphCreate(&g, 0));
  a = add_kernel(g, p, 0);
  b = add_kernel(g, p, &a);
  memset(&v, 0, sizeof v);
  v.cooperative = 1;
  SHOW(cuGraphKernelNodeSetAttribute(a, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &v));
  memset(&v, 0, sizeof v);
  v.priority = -2;
  OK(cuGraphKernelNodeSetAttribute(a, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v));
  OK(cuGraphKernelNodeCopyAttributes(b, a));
  memset(&v, 0, sizeof v);
  OK(cuGraphKernelNodeGetAttribute(b, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v));
  printf("priority of the node %d\n", v.priority);
  if (v.priority != -2) puts("WRONG: the attributes of the node are not copied");
  SHOW(cuGraphKernelNodeSetAttribute(a, (CUkernelNodeAttrID)99, &v));
  SHOW(cuGraphKernelNodeGetAttribute(a, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &v));
  SHOW(cuGraphKernelNodeGetAttribute(a, CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, &v));
  SHOW(cuGraphKernelNodeSetAttribute(a, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 0));
  OK(cuMemsetD32(p, 5, 16));
  OK(cuGraphInstantiate(&e, g, 0));
  OK(cuGraphLaunch(e, 0));
  OK(cuMemcpyDtoH(values, p, sizeof values));
  printf("after two nodes: %u\n", values[15]);
  print_graph(g);
}

static void mapping_attributes(void) {
  size_t bytes = 2 << 20;
  CUmemAllocationProp prop, got;
  CUmemAccessDesc access;
  CUmemGenericAllocationHandle h, again;
  CUdeviceptr p;
  unsigned long long flags = 9;
  memset(&prop, 0, sizeof prop);
  memset(&access, 0, sizeof access);
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  OK(cuMemAddressReserve(&p, bytes, 0, 0, 0));
  OK(cuMemCreate(&h, bytes, &prop, 0));
  OK(cuMemMap(p, bytes, 0, h, 0));
  OK(cuMemRelease(h));
  OK(cuMemGetAccess(&flags, &prop.location, p));
  printf("access %llu", flags);
  OK(cuMemSetAccess(p, bytes, &access, 1));
  OK(cuMemGetAccess(&flags, &prop.location, p + 4096));
  printf(", then %llu\n", flags);
  if (flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) puts("WRONG: the access is not known");
  OK(cuMemRetainAllocationHandle(&again, (void*)p));
  OK(cuMemGetAllocationPropertiesFromHandle(&got, again));
  printf("type %d on device %d\n", (int)got.type, got.location.id);
  OK(cuMemUnmap(p, bytes));
  OK(cuMemRelease(again));
  SHOW(cuMemGetAccess(&flags, &prop.location, p));
  OK(cuMemAddressFree(p, bytes));
}

/* Clusters of one block: the kernel can be launched with each of the values. */
static void function_attributes(CUdeviceptr p) {
  CUfunction_attribute settable[] = {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                     CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                     CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH,
                                     CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT,
                                     CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH,
                                     CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
                                     CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE};
  for (unsigned i = 0; i < sizeof settable / sizeof *settable; ++i) {
    int value = 0;
    CUresult r = cuFuncSetAttribute(bump, settable[i], 1);
    OK(cuFuncGetAttribute(&value, settable[i], bump));
    printf("attribute %d -> %d, value %d\n", (int)settable[i], (int)r, value);
    if (r || value != 1) puts("WRONG: the attribute cannot be set");
  }
  SHOW(cuFuncSetAttribute(bump, CU_FUNC_ATTRIBUTE_NUM_REGS, 1));
  SHOW(launch_bump(p, 16, 1, 1, 0));
  OK(cuCtxSynchronize());
}

int main(void) {
  CUdeviceptr p;
  create_context();
  OK(cuMemAlloc(&p, 64));
  stream_attributes();
  kernel_node_attributes(p);
  mapping_attributes();
  function_attributes(p);
  return 0;
}
