/* Conditional nodes inside bodies: a condition may belong to any graph around the node. */
#include "check.h"

static CUgraphConditionalHandle condition_of(CUgraph g, unsigned value) {
  CUgraphConditionalHandle h;
  OK(cuGraphConditionalHandleCreate(&h, g, context, value, CU_GRAPH_COND_ASSIGN_DEFAULT));
  return h;
}

static CUresult add_if(CUgraph g, CUgraphConditionalHandle h, CUgraph* body) {
  CUgraphNode n;
  CUgraphNodeParams c;
  memset(&c, 0, sizeof c);
  c.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  c.conditional.handle = h;
  c.conditional.type = CU_GRAPH_COND_TYPE_IF;
  c.conditional.size = 1;
  c.conditional.ctx = context;
  CUresult r = cuGraphAddNode(&n, g, 0, 0, 0, &c);
  if (!r) *body = c.conditional.phGraph_out[0];
  return r;
}

static void add_fill(CUgraph g, CUdeviceptr p, unsigned value) {
  CUgraphNode n;
  CUDA_MEMSET_NODE_PARAMS fill = {0};
  fill.dst = p;
  fill.value = value;
  fill.elementSize = 4;
  fill.width = fill.height = 1;
  OK(cuGraphAddMemsetNode(&n, g, 0, 0, &fill, context));
}

int main(void) {
  CUgraph g, other, unused, outer, taken, skipped;
  CUgraphExec e;
  CUdeviceptr p;
  unsigned values[2];
  create_context();
  OK(cuMemAlloc(&p, 8));
  OK(cuMemsetD32(p, 1, 2));
  OK(cuGraphCreate(&g, 0));
  OK(cuGraphCreate(&other, 0));
  OK(cuGraphCreate(&unused, 0));
  OK(add_if(g, condition_of(g, 1), &outer));
  OK(add_if(outer, condition_of(g, 1), &taken));
  OK(add_if(outer, condition_of(outer, 0), &skipped));
  SHOW(add_if(other, condition_of(unused, 1), &outer));
  SHOW(cuGraphInstantiate(&e, unused, 0)); /* a condition without a node */
  add_fill(taken, p, 7);
  add_fill(skipped, p + 4, 8);
  OK(cuGraphInstantiate(&e, g, 0));
  OK(cuGraphLaunch(e, 0));
  OK(cuMemcpyDtoH(values, p, 8));
  printf("values %u %u\n", values[0], values[1]);
  if (values[0] != 7 || values[1] != 1) puts("WRONG: the bodies do not follow their conditions");
  return 0;
}
