/* What a graph holds on to and when it lets go: user objects of clones, child graphs and executable
 * graphs; copies and bodies of destroyed nodes. */
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

#include "check.h"

static atomic_int ends;
static sem_t gate;
enum { kSeconds = 20 }; /* for a destructor to run */

static void destroyed(void* name) {
  printf("destroyed: %s\n", (const char*)name);
  ++ends;
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

/* Each clone of a child graph holds its own references. */
static void nested_clones(void) {
  CUuserObject o = object("of the nested clone");
  CUgraph inner, middle, outer, copy, nested;
  CUgraphNode n, child;
  size_t one = 1;
  OK(cuGraphCreate(&inner, 0));
  OK(cuGraphCreate(&middle, 0));
  OK(cuGraphCreate(&outer, 0));
  OK(cuGraphRetainUserObject(inner, o, 1, CU_GRAPH_USER_OBJECT_MOVE));
  OK(cuGraphAddChildGraphNode(&n, middle, 0, 0, inner));
  OK(cuGraphAddChildGraphNode(&n, outer, 0, 0, middle));
  OK(cuGraphDestroy(middle));
  OK(cuGraphDestroy(inner));
  puts("the originals are destroyed");
  OK(cuGraphChildGraphNodeGetGraph(n, &copy));
  OK(cuGraphGetNodes(copy, &child, &one));
  OK(cuGraphChildGraphNodeGetGraph(child, &nested));
  SHOW(cuGraphReleaseUserObject(nested, o, 1));
  puts("the nested clone has released its reference");
  OK(cuGraphDestroy(outer));
}

static void updates(void) {
  CUgraph old = holder("of the old graph"), new = holder("of the new graph"), other;
  CUgraphNode n;
  CUgraphExec e;
  CUgraphExecUpdateResultInfo info;
  int before = ends;
  OK(cuGraphInstantiate(&e, old, 0));
  OK(cuGraphDestroy(old));
  if (ends != before) puts("WRONG: the executable graph has no reference");
  OK(cuGraphExecUpdate(e, new, &info));
  printf("result %d\n", (int)info.result);
  if (ends != before + 1) puts("WRONG: an update does not release the old reference");
  OK(cuGraphDestroy(new));
  if (ends != before + 1) puts("WRONG: an update takes no reference");
  OK(cuGraphCreate(&other, 0));
  OK(cuGraphAddEmptyNode(&n, other, 0, 0));
  SHOW(cuGraphExecUpdate(e, other, &info));
  printf("result %d\n", (int)info.result);
  OK(cuGraphDestroy(other));
  OK(cuGraphExecDestroy(e));
}

static void wait_at_gate(void* unused) {
  (void)unused;
  sem_wait(&gate);
}

static void start_launch(CUgraphExec* e, const char* name, CUstream s) {
  CUgraph g = holder(name);
  CUgraphNode n;
  CUDA_HOST_NODE_PARAMS p = {wait_at_gate, 0};
  OK(cuGraphAddHostNode(&n, g, 0, 0, &p));
  OK(cuGraphInstantiate(e, g, 0));
  OK(cuGraphDestroy(g));
  OK(cuGraphLaunch(*e, s));
}

static void finish_launch(CUstream s, int before) {
  if (ends != before) puts("WRONG: a launch in progress has no reference");
  puts("the launch goes on");
  sem_post(&gate);
  OK(cuStreamSynchronize(s));
  for (time_t end = time(0) + kSeconds; ends == before && time(0) < end;) sched_yield();
  if (ends == before) puts("WRONG: the end of the launch releases no reference");
}

static void launches_in_progress(void) {
  CUgraph new;
  CUgraphNode n;
  CUgraphExec e;
  CUstream s;
  CUgraphExecUpdateResultInfo info;
  CUDA_HOST_NODE_PARAMS p = {wait_at_gate, 0};
  int before = ends;
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  start_launch(&e, "of a launch", s);
  OK(cuGraphExecDestroy(e));
  finish_launch(s, before);
  start_launch(&e, "of a launch before the update", s);
  OK(cuGraphCreate(&new, 0));
  OK(cuGraphAddHostNode(&n, new, 0, 0, &p));
  OK(cuGraphExecUpdate(e, new, &info));
  finish_launch(s, before + 1);
  OK(cuGraphExecDestroy(e));
  OK(cuGraphDestroy(new));
  OK(cuStreamDestroy(s));
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
  nested_clones();
  updates();
  sem_init(&gate, 0, 0);
  launches_in_progress();
  copies();
  bodies();
  return 0;
}
