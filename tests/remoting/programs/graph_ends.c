/* What a graph holds on to and when it lets go: user objects of clones, child graphs and executable
 * graphs; copies and bodies of destroyed nodes. */
#include "check.h"

static void destroyed(void* name) {
  printf("destroyed: %s\n", (const char*)name);
}

static CUuserObject object(const char* name) {
  CUuserObject o;
  OK(cuUserObjectCreate(&o, (void*)name, destroyed, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  return o;
}

static CUgraph holder(const char* name) {
  CUgraph g;
  OK(cuGraphCreate(&g, 0));
  OK(cuGraphRetainUserObject(g, object(name), 1, CU_GRAPH_USER_OBJECT_MOVE));
  return g;
}

static void clones(void) {
  CUgraph g = holder("of the clone"), copy;
  OK(cuGraphClone(&copy, g));
  OK(cuGraphDestroy(g));
  puts("the original is destroyed");
  OK(cuGraphDestroy(copy));
}

static void children(void) {
  CUgraph g = holder("of the parent"), child = holder("of the child");
  CUgraphNode n, second;
  CUgraphExec e;
  OK(cuGraphAddChildGraphNode(&n, g, 0, 0, child));
  OK(cuGraphAddChildGraphNode(&second, g, 0, 0, child));
  OK(cuGraphDestroy(child));
  puts("the child is destroyed");
  OK(cuGraphInstantiate(&e, g, 0));
  OK(cuGraphDestroyNode(n));
  puts("one node is destroyed");
  OK(cuGraphDestroy(g));
  puts("the parent is destroyed");
  OK(cuGraphExecDestroy(e));
}

/* A copy to host memory that is gone does not run after its node was destroyed. */
static void copies(void) {
  CUgraph g;
  CUgraphNode n, kept;
  CUgraphExec e;
  CUdeviceptr p;
  unsigned *gone, *there;
  OK(cuMemAlloc(&p, 4));
  OK(cuMemsetD32(p, 7, 1));
  OK(cuMemHostAlloc((void**)&gone, 4, 0));
  OK(cuMemHostAlloc((void**)&there, 4, 0));
  *gone = *there = 1;
  CUDA_MEMCPY3D back = {0};
  back.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  back.srcDevice = p;
  back.dstMemoryType = CU_MEMORYTYPE_HOST;
  back.WidthInBytes = 4;
  back.Height = back.Depth = 1;
  OK(cuGraphCreate(&g, 0));
  back.dstHost = gone;
  OK(cuGraphAddMemcpyNode(&n, g, 0, 0, &back, context));
  back.dstHost = there;
  OK(cuGraphAddMemcpyNode(&kept, g, 0, 0, &back, context));
  OK(cuGraphDestroyNode(n));
  OK(cuGraphInstantiate(&e, g, 0));
  OK(cuGraphLaunch(e, 0));
  SHOW(cuCtxSynchronize());
  printf("copied: %u, not copied: %u\n", *there, *gone);
  OK(cuGraphExecDestroy(e));
  OK(cuGraphDestroy(g));
  OK(cuMemFreeHost(gone));
  OK(cuMemFreeHost(there));
  OK(cuMemFree(p));
}

/* The body of a destroyed conditional node lets go of what it held, nested bodies too. */
static CUgraph body_of(CUgraph g, CUgraphNode* n) {
  CUgraphConditionalHandle h;
  CUgraphNodeParams c;
  memset(&c, 0, sizeof c);
  OK(cuGraphConditionalHandleCreate(&h, g, context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
  c.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  c.conditional.handle = h;
  c.conditional.type = CU_GRAPH_COND_TYPE_IF;
  c.conditional.size = 1;
  c.conditional.ctx = context;
  OK(cuGraphAddNode(n, g, 0, 0, 0, &c));
  return c.conditional.phGraph_out[0];
}

static void bodies(void) {
  CUgraph g;
  CUgraphNode n, inner;
  OK(cuGraphCreate(&g, 0));
  CUgraph body = body_of(g, &n);
  OK(cuGraphRetainUserObject(body, object("of the body"), 1, CU_GRAPH_USER_OBJECT_MOVE));
  CUgraph nested = body_of(body, &inner);
  OK(cuGraphRetainUserObject(nested, object("of the nested body"), 1, CU_GRAPH_USER_OBJECT_MOVE));
  OK(cuGraphDestroyNode(inner));
  puts("the inner node is destroyed");
  OK(cuGraphDestroyNode(n));
  puts("the node is destroyed");
  body = body_of(g, &n);
  OK(cuGraphRetainUserObject(body, object("of another body"), 1, CU_GRAPH_USER_OBJECT_MOVE));
  OK(cuGraphDestroy(g));
  puts("the graph is destroyed");
}

int main(void) {
  create_context();
  clones();
  children();
  copies();
  bodies();
  return 0;
}
