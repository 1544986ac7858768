/* Conditional nodes (IF, WHILE, SWITCH, nested), batch memory operation nodes and event nodes, also
 * in captures. */
#include "check.h"

static const char* COUNT =
    ".version 8.4\n.target sm_80\n.address_size 64\n"
    ".extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);\n"
    /* p[0] += 1; the condition is whether p[0] is below `end` */
    ".visible .entry again(.param .u64 p, .param .u32 end, .param .u64 h)\n{\n.reg .pred q;\n"
    ".reg .b32 r<4>;\n.reg .b64 d<3>;\n"
    "ld.param.u64 d1, [p];\nld.param.u32 r1, [end];\nld.param.u64 d2, [h];\n"
    "ld.global.u32 r2, [d1];\nadd.u32 r2, r2, 1;\nst.global.u32 [d1], r2;\n"
    "setp.lt.u32 q, r2, r1;\nselp.u32 r3, 1, 0, q;\n"
    "{\n.param .b64 a;\n.param .b32 b;\nst.param.b64 [a], d2;\nst.param.b32 [b], r3;\n"
    "call.uni cudaGraphSetConditional, (a, b);\n}\nret;\n}\n"
    /* the condition is p[0] */
    ".visible .entry choose(.param .u64 p, .param .u64 h)\n{\n.reg .b32 r<2>;\n.reg .b64 d<3>;\n"
    "ld.param.u64 d1, [p];\nld.param.u64 d2, [h];\nld.global.u32 r1, [d1];\n"
    "{\n.param .b64 a;\n.param .b32 b;\nst.param.b64 [a], d2;\nst.param.b32 [b], r1;\n"
    "call.uni cudaGraphSetConditional, (a, b);\n}\nret;\n}\n";

static CUstream s;
static CUdeviceptr p, q;
static CUfunction again, choose;

/* NVIDIA's driver requires the device runtime library of the toolkit to be linked. */
static void load(CUmodule* m) {
  const char* home = getenv("CUDA_HOME");
  char library[512];
  CUlinkState l;
  void* image;
  size_t bytes;
  if (cuModuleLoadData(m, COUNT) == CUDA_SUCCESS) return;
  snprintf(library, sizeof library, "%s/lib64/libcudadevrt.a", home ? home : "/usr/local/cuda");
  OK(cuLinkCreate(0, 0, 0, &l));
  OK(cuLinkAddData(l, CU_JIT_INPUT_PTX, (void*)COUNT, strlen(COUNT) + 1, "count", 0, 0, 0));
  OK(cuLinkAddFile(l, CU_JIT_INPUT_LIBRARY, library, 0, 0, 0));
  OK(cuLinkComplete(l, &image, &bytes));
  OK(cuModuleLoadData(m, image));
  OK(cuLinkDestroy(l));
}

static CUgraphNode kernel(CUgraph g, CUgraphNode after, CUfunction f, void** params) {
  CUgraphNode n;
  CUDA_KERNEL_NODE_PARAMS k = {0};
  k.func = f;
  k.gridDimX = k.gridDimY = k.gridDimZ = k.blockDimX = k.blockDimY = k.blockDimZ = 1;
  k.kernelParams = params;
  OK(cuGraphAddKernelNode(&n, g, &after, after != 0, &k));
  return n;
}

static CUgraphNode fill(CUgraph g, CUgraphNode after, CUdeviceptr at, unsigned v) {
  CUgraphNode n;
  CUDA_MEMSET_NODE_PARAMS m = {0};
  m.dst = at;
  m.value = v;
  m.elementSize = 4;
  m.width = m.height = 1;
  OK(cuGraphAddMemsetNode(&n, g, &after, after != 0, &m, context));
  return n;
}

static CUgraphNode conditional(CUgraph g, CUgraphNode after, CUgraphConditionalHandle h,
                               CUgraphConditionalNodeType type, unsigned size, CUgraph* bodies) {
  CUgraphNode n;
  CUgraphNodeParams c;
  memset(&c, 0, sizeof c);
  c.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  c.conditional.handle = h;
  c.conditional.type = type;
  c.conditional.size = size;
  c.conditional.ctx = context;
  OK(cuGraphAddNode(&n, g, &after, 0, after != 0, &c));
  for (unsigned i = 0; i < size; ++i) bodies[i] = c.conditional.phGraph_out[i];
  return n;
}

static void launch(CUgraphExec e, const char* name) {
  unsigned v[2];
  OK(cuGraphLaunch(e, s));
  OK(cuMemcpyDtoHAsync(v, p, 4, s));
  OK(cuMemcpyDtoHAsync(v + 1, q, 4, s));
  OK(cuStreamSynchronize(s));
  printf("%s: %u %u\n", name, v[0], v[1]);
}

/* Count while p < 5. In each round an IF, which the default value enables, sets q and copies it to
 * host memory. */
static void loops(void) {
  CUgraph g, body, inner;
  CUgraphExec e;
  CUgraphConditionalHandle h, yes;
  unsigned end = 5;
  OK(cuGraphCreate(&g, 0));
  OK(cuGraphConditionalHandleCreate(&h, g, context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
  CUgraphNode loop = conditional(g, 0, h, CU_GRAPH_COND_TYPE_WHILE, 1, &body);
  void* params[] = {&p, &end, &h};
  CUgraphNode counted = kernel(body, 0, again, params);
  OK(cuGraphConditionalHandleCreate(&yes, body, context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
  conditional(body, counted, yes, CU_GRAPH_COND_TYPE_IF, 1, &inner);
  CUgraphNode filled = fill(inner, 0, q, 77), copied;
  CUDA_MEMCPY3D back = {0};
  unsigned* pinned;
  OK(cuMemHostAlloc((void**)&pinned, 4, 0));
  *pinned = 3;
  back.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  back.srcDevice = q;
  back.dstMemoryType = CU_MEMORYTYPE_HOST;
  back.dstHost = pinned;
  back.WidthInBytes = 4;
  back.Height = back.Depth = 1;
  OK(cuGraphAddMemcpyNode(&copied, inner, &filled, 1, &back, context));
  OK(cuGraphInstantiate(&e, g, 0));
  OK(cuMemsetD32Async(p, 0, 1, s));
  OK(cuMemsetD32Async(q, 0, 1, s));
  launch(e, "while, five rounds");
  printf("copied within: %u\n", *pinned);
  launch(e, "while, one more round");
  CUgraphNodeType type;
  OK(cuGraphNodeGetType(loop, &type));
  printf("type %d\n", (int)type);
  OK(cuGraphExecDestroy(e));
  OK(cuGraphDestroy(g));
  OK(cuMemFreeHost(pinned));
}

/* A copy in a branch that is not taken does not change host memory. */
static void branches(void) {
  CUgraph g, bodies[2], cases[3];
  CUgraphExec e;
  CUgraphConditionalHandle h, which;
  unsigned* pinned;
  OK(cuMemHostAlloc((void**)&pinned, 4, 0));
  OK(cuGraphCreate(&g, 0));
  OK(cuGraphConditionalHandleCreate(&h, g, context, 0, 0));
  OK(cuGraphConditionalHandleCreate(&which, g, context, 0, CU_GRAPH_COND_ASSIGN_DEFAULT));
  void *params[] = {&p, &h}, *switch_params[] = {&p, &which};
  CUgraphNode chosen = kernel(g, 0, choose, params);
  CUgraphNode either = conditional(g, chosen, h, CU_GRAPH_COND_TYPE_IF, 2, bodies);
  CUDA_MEMCPY3D back = {0};
  back.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  back.srcDevice = p;
  back.dstMemoryType = CU_MEMORYTYPE_HOST;
  back.dstHost = pinned;
  back.WidthInBytes = 4;
  back.Height = back.Depth = 1;
  CUgraphNode copied;
  OK(cuGraphAddMemcpyNode(&copied, bodies[0], 0, 0, &back, context));
  fill(bodies[1], 0, q, 1000);
  CUgraphNode chosen_again = kernel(g, either, choose, switch_params);
  conditional(g, chosen_again, which, CU_GRAPH_COND_TYPE_SWITCH, 3, cases);
  for (unsigned i = 0; i < 3; ++i) fill(cases[i], 0, q, 2000 + i);
  OK(cuGraphInstantiate(&e, g, 0));
  for (unsigned v = 0; v < 5; ++v) {
    *pinned = 55 + v;
    OK(cuMemsetD32Async(p, v, 1, s));
    OK(cuMemsetD32Async(q, 1, 1, s));
    launch(e, "branch");
    printf("host word: %u\n", *pinned);
  }
  OK(cuGraphExecDestroy(e));
  /* The bodies belong to the graph, not to the first executable graph. */
  OK(cuGraphInstantiate(&e, g, 0));
  OK(cuMemsetD32Async(p, 9, 1, s));
  launch(e, "branch again");
  printf("host word: %u\n", *pinned);
  OK(cuGraphExecDestroy(e));
  OK(cuGraphDestroy(g));
  OK(cuMemFreeHost(pinned));
}

static void batch_memory_operations(void) {
  CUgraph g;
  CUgraphExec e;
  CUgraphNode n;
  CUstreamBatchMemOpParams w[2];
  memset(w, 0, sizeof w);
  w[0].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  w[0].waitValue.address = p;
  w[0].waitValue.value = 9;
  w[0].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  w[1].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  w[1].writeValue.address = q;
  w[1].writeValue.value = 11;
  CUDA_BATCH_MEM_OP_NODE_PARAMS b = {context, 2, w, 0}, seen;
  OK(cuGraphCreate(&g, 0));
  OK(cuGraphAddBatchMemOpNode(&n, g, 0, 0, &b));
  OK(cuGraphBatchMemOpNodeGetParams(n, &seen));
  printf("words: %u, %d %d, value %u\n", seen.count, (int)seen.paramArray[0].operation,
         seen.paramArray[1].writeValue.address == q, seen.paramArray[1].writeValue.value);
  OK(cuGraphInstantiate(&e, g, 0));
  OK(cuMemsetD32Async(p, 0, 1, s));
  OK(cuMemsetD32Async(q, 0, 1, s));
  OK(cuStreamSynchronize(s));
  OK(cuGraphLaunch(e, s));
  SHOW(cuStreamQuery(s)); /* waits for the word */
  CUstream other;
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  OK(cuStreamWriteValue32(other, p, 9, 0));
  OK(cuStreamSynchronize(s));
  w[1].writeValue.value = 12;
  OK(cuGraphExecBatchMemOpNodeSetParams(e, n, &b));
  launch(e, "words");
  w[0].operation = 99;
  SHOW(cuGraphAddBatchMemOpNode(&n, g, 0, 0, &b));
  w[0].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  w[0].waitValue.address = p + 1;
  SHOW(cuGraphAddBatchMemOpNode(&n, g, 0, 0, &b));
  OK(cuStreamDestroy(other));
  OK(cuGraphExecDestroy(e));
  OK(cuGraphDestroy(g));
}

static void events(void) {
  CUgraph g, captured;
  CUgraphExec e, x;
  CUgraphNode slow, recorded, waited;
  CUevent a, b, seen;
  CUstream other;
  unsigned v;
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&a, 0));
  OK(cuEventCreate(&b, 0));
  OK(cuGraphCreate(&g, 0));
  slow = fill(g, 0, p, 4);
  OK(cuGraphAddEventRecordNode(&recorded, g, &slow, 1, a));
  OK(cuGraphAddEventWaitNode(&waited, g, 0, 0, b));
  OK(cuGraphEventRecordNodeGetEvent(recorded, &seen));
  printf("record node: same event %d\n", seen == a);
  OK(cuGraphEventWaitNodeGetEvent(waited, &seen));
  printf("wait node: same event %d\n", seen == b);
  SHOW(cuGraphEventRecordNodeGetEvent(waited, &seen));
  OK(cuGraphInstantiate(&e, g, 0));
  OK(cuGraphLaunch(e, s));
  OK(cuStreamWaitEvent(other, a, 0));
  OK(cuMemcpyDtoHAsync(&v, p, 4, other));
  OK(cuStreamSynchronize(other));
  printf("after the graph's event: %u\n", v);
  OK(cuEventQuery(a));

  /* In a capture, an external record and an external wait become nodes, not edges. */
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(launch_bump(p, 1, 3, 1, s));
  OK(cuEventRecordWithFlags(b, s, CU_EVENT_RECORD_EXTERNAL));
  OK(launch_bump(p, 1, 3, 1, s));
  OK(cuStreamWaitEvent(s, a, CU_EVENT_WAIT_EXTERNAL));
  OK(cuStreamEndCapture(s, &captured));
  size_t nodes = 0;
  OK(cuGraphGetNodes(captured, 0, &nodes));
  CUgraphNode list[8];
  OK(cuGraphGetNodes(captured, list, &nodes));
  printf("captured: %zu nodes:", nodes);
  for (size_t i = 0; i < nodes; ++i) {
    CUgraphNodeType t;
    OK(cuGraphNodeGetType(list[i], &t));
    printf(" %d", (int)t);
  }
  printf("\n");
  OK(cuGraphInstantiate(&x, captured, 0));
  OK(cuGraphLaunch(x, s));
  OK(cuEventSynchronize(b));
  OK(cuStreamSynchronize(s));
  launch(x, "captured with events");
  OK(cuGraphExecDestroy(e));
  OK(cuGraphExecDestroy(x));
  OK(cuGraphDestroy(g));
  OK(cuGraphDestroy(captured));
  OK(cuEventDestroy(a));
  OK(cuEventDestroy(b));
  OK(cuStreamDestroy(other));
}

int main(void) {
  CUmodule m;
  create_context();
  load(&m);
  OK(cuModuleGetFunction(&again, m, "again"));
  OK(cuModuleGetFunction(&choose, m, "choose"));
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&p, 4096));
  q = p + 1024;
  loops();
  branches();
  batch_memory_operations();
  events();
  /* Invalid parameters are errors. */
  CUgraph g;
  CUgraphConditionalHandle h;
  CUgraphNode n;
  CUgraphNodeParams c;
  OK(cuGraphCreate(&g, 0));
  OK(cuGraphConditionalHandleCreate(&h, g, context, 0, 0));
  memset(&c, 0, sizeof c);
  c.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  c.conditional.handle = h + 1;
  c.conditional.type = CU_GRAPH_COND_TYPE_IF;
  c.conditional.size = 1;
  c.conditional.ctx = context;
  SHOW(cuGraphAddNode(&n, g, 0, 0, 0, &c));
  c.conditional.handle = h;
  c.conditional.size = 3;
  SHOW(cuGraphAddNode(&n, g, 0, 0, 0, &c));
  c.conditional.size = 0;
  SHOW(cuGraphAddNode(&n, g, 0, 0, 0, &c));
  OK(cuGraphDestroy(g));
  OK(cuModuleUnload(m));
  OK(cuMemFree(p));
  OK(cuCtxSynchronize());
  return 0;
}
