/* The session server goes on with other streams while something waits: progress NAME. Each case
 * would never end if the executor of the session server waited. Prints "NAME: passed". */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include "check.h"

enum { BYTES = 4096, LARGE = 200 << 20, BEHIND = 3000, ROUNDS = 300, COPIES = 32, COPY = 8 << 20 };

static sem_t called, gate;
static CUstream blocked, other;
static CUdeviceptr data;
static atomic_int uploaded;

static void CUDA_CB wait_at_gate(void* unused) {
  (void)unused;
  sem_post(&called);
  while (sem_wait(&gate)) {
  }
}
static void CUDA_CB do_nothing(void* unused) {
  (void)unused;
}

static CUgraphExec graph_of(CUhostFn f) {
  CUgraph g;
  CUgraphNode node;
  CUgraphExec exec;
  CUDA_HOST_NODE_PARAMS p = {f, 0};
  OK(cuGraphCreate(&g, 0));
  OK(cuGraphAddHostNode(&node, g, 0, 0, &p));
  OK(cuGraphInstantiateWithFlags(&exec, g, 0));
  return exec;
}

static CUgraphNode node_to_disable;

/* Sets the word behind `COPY` to 7. */
static CUgraphExec graph_with_memset(void) {
  CUgraph g;
  CUgraphExec exec;
  CUDA_MEMSET_NODE_PARAMS p = {data + COPY, 0, 7, 4, 1, 1};
  OK(cuGraphCreate(&g, 0));
  OK(cuGraphAddMemsetNode(&node_to_disable, g, 0, 0, &p, context));
  OK(cuGraphInstantiateWithFlags(&exec, g, 0));
  return exec;
}

/* Launches a graph and waits until its host function waits at the gate. */
static void close_gate(void) {
  OK(cuGraphLaunch(graph_of(wait_at_gate), blocked));
  while (sem_wait(&called)) {
  }
}

static void check_other_stream(void) {
  static unsigned round;
  unsigned back[BYTES / 4];
  OK(cuMemsetD32Async(data, ++round, BYTES / 4, other));
  OK(cuMemcpyDtoHAsync(back, data, BYTES, other));
  OK(cuStreamSynchronize(other));
  if (back[0] != round || back[BYTES / 4 - 1] != round) {
    printf("the other stream is wrong\n");
    exit(1);
  }
}

static void open_gate(void) {
  sem_post(&gate);
  OK(cuStreamSynchronize(blocked));
}

/* Freed memory goes back to the node, which waits for all work of the GPU. */
static void memory_is_freed(void) {
  CUdeviceptr large, small;
  OK(cuMemAlloc(&large, LARGE));
  OK(cuMemAlloc(&small, BYTES));
  OK(launch_bump(data, BYTES / 4, 1, 1 << 20, other));
  OK(cuMemFree(large)); /* its memory is in use until `other` has ended */
  OK(cuStreamSynchronize(other));
  close_gate();
  OK(cuMemFree(small));
  check_other_stream();
  open_gate();
}

/* More work behind the function than the launch queue of the driver holds. */
static void queue_is_full(void) {
  unsigned back[BYTES / 4];
  CUdeviceptr p;
  OK(cuMemAlloc(&p, BYTES));
  close_gate();
  for (unsigned i = 0; i < BEHIND; ++i) OK(cuMemsetD32Async(p + i % 1024 * 4, i, 1, blocked));
  check_other_stream();
  open_gate();
  OK(cuMemcpyDtoH(back, p, BYTES));
  for (unsigned i = 0; i < BYTES / 4; ++i)
    if (back[i] != (BEHIND - 1 - i) / 1024 * 1024 + i) {
      printf("word %u is wrong: %u\n", i, back[i]);
      exit(1);
    }
}

static void* launch_graphs(void* context_of_thread) {
  CUgraphExec exec;
  CUstream s;
  OK(cuCtxSetCurrent((CUcontext)context_of_thread));
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  exec = graph_of(do_nothing);
  for (int i = 0; i < ROUNDS; ++i) {
    OK(cuGraphLaunch(exec, s));
    if (i % 8 == 7) OK(cuStreamSynchronize(s));
  }
  OK(cuStreamSynchronize(s));
  return 0;
}

/* Two contexts of one GPU: one waits for the output of its kernels, the other launches graphs. */
static void output_is_flushed(void) {
  char text[8192];
  pthread_t thread;
  CUcontext second;
  CUmodule m;
  snprintf(text, sizeof text, "%s// vprintf\n", PTX);
  OK(cuModuleLoadData(&m, text));
  OK(cuCtxCreate(&second, 0, 0, 0));
  OK(cuCtxSetCurrent(context));
  pthread_create(&thread, 0, launch_graphs, second);
  for (int i = 0; i < ROUNDS; ++i) {
    OK(cuMemsetD32Async(data, 1, BYTES / 4, other));
    OK(cuCtxSynchronize());
  }
  pthread_join(thread, 0);
}

static atomic_int executed, changing;

static void CUDA_CB count_call(void* unused) {
  (void)unused;
  ++executed;
}

static void* destroy_graph(void* exec) {
  OK(cuCtxSetCurrent(context));
  ++changing;
  OK(cuGraphExecDestroy((CUgraphExec)exec));
  return 0;
}

static void* disable_node(void* exec) {
  OK(cuCtxSetCurrent(context));
  ++changing;
  OK(cuGraphNodeSetEnabled((CUgraphExec)exec, node_to_disable, 0));
  return 0;
}

/* Threads of the program change graphs whose launches wait for a host function of a stream. */
static void parked_graph_is_changed(void) {
  pthread_t threads[2];
  CUgraphExec destroyed = graph_of(count_call), disabled = graph_with_memset();
  OK(cuMemsetD32(data + COPY, 1, 1));
  OK(cuLaunchHostFunc(blocked, wait_at_gate, 0));
  while (sem_wait(&called)) {
  }
  OK(cuGraphLaunch(destroyed, blocked));
  OK(cuGraphLaunch(disabled, blocked));
  pthread_create(&threads[0], 0, destroy_graph, destroyed);
  pthread_create(&threads[1], 0, disable_node, disabled);
  while (changing < 2) check_other_stream();
  for (int i = 0; i < ROUNDS; ++i) check_other_stream();
  open_gate();
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], 0);
  unsigned word;
  OK(cuMemcpyDtoH(&word, data + COPY, sizeof word));
  if (executed != 1 || word != 7) {
    printf("a launch did not run before the change of its graph\n");
    exit(1);
  }
}

/* The graph itself waits for the program while a thread destroys it. */
static void running_graph_is_destroyed(void) {
  pthread_t thread;
  CUgraphExec running = graph_of(wait_at_gate);
  OK(cuGraphLaunch(running, blocked));
  while (sem_wait(&called)) {
  }
  pthread_create(&thread, 0, destroy_graph, running);
  while (!changing) check_other_stream();
  for (int i = 0; i < ROUNDS; ++i) check_other_stream();
  open_gate();
  pthread_join(thread, 0);
}

static void* fill_blocked_stream(void* source) {
  OK(cuCtxSetCurrent(context));
  for (int i = 0; i < COPIES; ++i) {
    OK(cuMemcpyHtoDAsync(data, source, COPY, blocked));
    ++uploaded;
  }
  return 0;
}

/* A thread waits until the node has taken its large copies; another copies in the other direction.
 */
static void upload_waits(void) {
  pthread_t thread;
  CUdeviceptr flag;
  char *source = malloc(COPY), *back = malloc(COPY);
  memset(source, 3, COPY);
  OK(cuMemcpyDtoH(back, data, COPY)); /* the bulk connection is open */
  OK(cuMemAlloc(&flag, 4));
  OK(cuMemsetD32(flag, 0, 1));
  OK(cuCtxSynchronize());
  OK(cuStreamWaitValue32(blocked, flag, 7, CU_STREAM_WAIT_VALUE_EQ));
  pthread_create(&thread, 0, fill_blocked_stream, source);
  int before;
  do { /* until the thread waits */
    before = uploaded;
    for (int i = 0; i < 20; ++i) OK(cuMemcpyDtoHAsync(back, data + COPY, COPY, other));
    OK(cuStreamSynchronize(other));
  } while (uploaded != before);
  if (before == COPIES) {
    printf("the thread never waited\n");
    exit(1);
  }
  OK(cuStreamWriteValue32(other, flag, 7, 0));
  pthread_join(thread, 0);
  OK(cuStreamSynchronize(blocked));
  OK(cuMemcpyDtoH(back, data, COPY));
  if (back[COPY - 1] != 3) {
    printf("the copies are wrong\n");
    exit(1);
  }
}

/* Copies of rows from and to pinned memory are behind a host function. */
static void rows_are_copied(void) {
  unsigned* rows;
  OK(cuMemHostAlloc((void**)&rows, BYTES, 0));
  OK(cuMemsetD32(data + COPY, 5, BYTES / 4));
  close_gate();
  CUDA_MEMCPY2D out = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = data + COPY,
                       .srcPitch = 256,
                       .dstMemoryType = CU_MEMORYTYPE_HOST,
                       .dstHost = rows,
                       .dstPitch = 128,
                       .WidthInBytes = 128,
                       .Height = 16};
  CUDA_MEMCPY2D in = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                      .srcHost = rows + BYTES / 8,
                      .srcPitch = 128,
                      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                      .dstDevice = data + 2 * BYTES,
                      .dstPitch = 256,
                      .WidthInBytes = 128,
                      .Height = 16};
  memset(rows, 6, BYTES);
  OK(cuMemcpy2DAsync(&out, blocked));
  OK(cuMemcpy2DAsync(&in, blocked));
  check_other_stream();
  open_gate();
  unsigned word;
  OK(cuMemcpyDtoH(&word, data + 2 * BYTES + 15 * 256, sizeof word));
  if (rows[0] != 5 || rows[511] != 5 || rows[512] != 0x06060606 || word != 0x06060606) {
    printf("the rows are wrong\n");
    exit(1);
  }
}

/* The first large copy opens the bulk connection, after the test has stopped the launcher. */
static void bulk_connection_opens_later(void) {
  char *source = malloc(COPY), *back = malloc(COPY), line[8];
  memset(source, 5, COPY);
  fprintf(stderr, "ready\n");
  if (!fgets(line, sizeof line, stdin)) exit(1);
  OK(cuMemcpyHtoD(data, source, COPY));
  OK(cuMemcpyDtoH(back, data, COPY));
  if (memcmp(source, back, COPY)) printf("the copies are wrong\n");
}

int main(int n, char** v) {
  static const struct {
    const char* name;
    void (*run)(void);
  } all[] = {{"memory_is_freed", memory_is_freed},
             {"queue_is_full", queue_is_full},
             {"output_is_flushed", output_is_flushed},
             {"parked_graph_is_changed", parked_graph_is_changed},
             {"running_graph_is_destroyed", running_graph_is_destroyed},
             {"upload_waits", upload_waits},
             {"rows_are_copied", rows_are_copied},
             {"bulk_connection_opens_later", bulk_connection_opens_later}};
  sem_init(&called, 0, 0);
  sem_init(&gate, 0, 0);
  create_context();
  OK(cuStreamCreate(&blocked, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&data, 2 * COPY));
  for (unsigned i = 0; n > 1 && i < sizeof all / sizeof all[0]; ++i)
    if (!strcmp(v[1], all[i].name)) {
      all[i].run();
      printf("%s: passed\n", v[1]);
      return 0;
    }
  printf("usage: progress NAME\n");
  return 2;
}
