/* Functions that drivers of CUDA 13.0 do not have: the parameters of any node, and how many a
 * function has. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "check.h"

typedef CUresult (*GetNodeParams)(CUgraphNode, CUgraphNodeParams*);
typedef CUresult (*GetParamCount)(CUfunction, size_t*);
static GetNodeParams node_params;

static void count_parameters(void) {
  GetParamCount get = (GetParamCount)dlsym(RTLD_DEFAULT, "cuFuncGetParamCount");
  size_t count = 0;
  OK(get(bump, &count));
  printf("%u parameters\n", (unsigned)count);
}

static void event_node(CUgraph g) {
  CUgraphNode n;
  CUgraphNodeParams about;
  CUevent e;
  OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
  OK(cuGraphAddEventRecordNode(&n, g, 0, 0, e));
  OK(node_params(n, &about));
  printf("type %d, same event %d\n", (int)about.type, about.eventRecord.event == e);
}

static void conditional_node(CUgraph g) {
  CUgraphNode n;
  CUgraphNodeParams c = {0}, about;
  c.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  OK(cuGraphConditionalHandleCreate(&c.conditional.handle, g, context, 1, 0));
  c.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
  c.conditional.size = 1;
  c.conditional.ctx = context;
  OK(cuGraphAddNode(&n, g, 0, 0, 0, &c));
  OK(node_params(n, &about));
  printf("type %d, kind %d, size %u, same graph %d\n", (int)about.type, (int)about.conditional.type,
         about.conditional.size, about.conditional.phGraph_out[0] == c.conditional.phGraph_out[0]);
}

static void memory_node(CUgraph g) {
  CUgraphNode n;
  CUgraphNodeParams any = {0};
  any.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  any.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  any.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  any.alloc.bytesize = 4096;
  OK(cuGraphAddNode(&n, g, 0, 0, 0, &any));
  SHOW(node_params(n, &any));
  printf("type %d, bytes %zu\n", (int)any.type, any.alloc.bytesize);
}

static void pool_size(size_t bytes) {
  CUmemoryPool pool;
  CUmemPoolProps p = {0};
  cuuint64_t answer = 9;
  p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.maxSize = bytes;
  OK(cuMemPoolCreate(&pool, &p));
  OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_MAX_POOL_SIZE, &answer));
  printf("maximum of a pool: %llu\n", (unsigned long long)answer);
  if (bytes ? answer < bytes : answer > 0) puts("WRONG: another maximum");
  OK(cuMemPoolDestroy(pool));
}

int main(void) {
  CUgraph g;
  create_context();
  node_params = (GetNodeParams)dlsym(RTLD_DEFAULT, "cuGraphNodeGetParams");
  count_parameters();
  OK(cuGraphCreate(&g, 0));
  event_node(g);
  conditional_node(g);
  memory_node(g);
  pool_size(0);
  pool_size(8 << 20);
  OK(cuGraphDestroy(g));
  return 0;
}
