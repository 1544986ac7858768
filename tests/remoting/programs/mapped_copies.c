/* Copies to and from host memory that kernels use, without a wait between them. */
#include <semaphore.h>

#include "check.h"

enum { N = 1 << 18, BYTES = N * 4, ROUNDS = 6 };
static unsigned *host, *seen;
static CUdeviceptr device, on_device; /* on_device: the address of `host` for kernels */
static CUstream s;
static sem_t gate;

/* Prints the first wrong word, if there is one. */
static void expect(const char* what, unsigned from, unsigned to, unsigned value) {
  for (unsigned i = from; i < to; ++i)
    if (host[i] != value) {
      printf("%s: WRONG: word %u is %u, not %u\n", what, i, host[i], value);
      return;
    }
  printf("%s: %u\n", what, value);
}

/* Kernels behind a copy change what it has written. */
static void copies_then_kernels(void) {
  for (unsigned round = 0; round < ROUNDS; ++round) {
    OK(cuMemsetD32Async(device, 100 * round, N, s));
    OK(cuMemcpyDtoHAsync(host, device, BYTES, s));
    OK(launch_bump(on_device, N, 1, 1, s));
    OK(launch_bump(on_device, N / 2, 2, 1, s));
    OK(cuMemsetD32Async(device, 7, N, s));
    OK(cuStreamSynchronize(s));
    expect("both kernels", 0, N / 2, 100 * round + 3);
    expect("one kernel", N / 2, N, 100 * round + 1);
  }
}

/* The program changes the result of a copy, and a kernel reads that. */
static void copies_then_changes(void) {
  for (unsigned round = 0; round < ROUNDS; ++round) {
    OK(cuMemsetD32Async(device, round, N, s));
    OK(launch_bump(on_device, N, 5, 1, s));
    OK(cuMemcpyDtoHAsync(host, device, BYTES, s));
    OK(cuStreamSynchronize(s));
    for (unsigned i = 0; i < N; i += 2) host[i] = 50;
    OK(launch_bump(on_device, N, 1, 1, s));
    OK(cuMemcpyHtoDAsync(device, host, BYTES, s));
    OK(cuMemsetD32Async(on_device, 0, N, s));
    OK(cuMemcpyDtoH(seen, device, BYTES));
    printf("read back: %u %u\n", seen[0], seen[N - 1]);
    expect("cleared", 0, N, 0);
  }
}

/* Each of two streams begins work after the program has changed what the second one reads. */
static void two_streams(void) {
  CUstream other;
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  for (unsigned round = 0; round < ROUNDS; ++round) {
    for (unsigned i = 0; i < N; ++i) host[i] = round;
    OK(launch_bump(device, N, 1, 1, s));
    OK(launch_bump(on_device, N, 3, 1, other));
    OK(cuStreamSynchronize(other));
    OK(cuStreamSynchronize(s));
    expect("second stream", 0, N, round + 3);
  }
  OK(cuStreamDestroy(other));
}

static void count_call(void* calls) {
  ++*(int*)calls;
}

/* A host node whose function was replaced in the executable graph, behind a copy to `host`. */
static void graph_with_replaced_function(void) {
  CUgraph g;
  CUgraphExec e;
  CUgraphNode copied, called;
  int replaced = 0, calls = 0;
  CUDA_HOST_NODE_PARAMS f = {.fn = count_call, .userData = &replaced};
  CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                     .srcDevice = device,
                     .dstMemoryType = CU_MEMORYTYPE_HOST,
                     .dstHost = host,
                     .WidthInBytes = BYTES,
                     .Height = 1,
                     .Depth = 1};
  OK(cuGraphCreate(&g, 0));
  OK(cuGraphAddMemcpyNode(&copied, g, 0, 0, &c, context));
  OK(cuGraphAddHostNode(&called, g, &copied, 1, &f));
  OK(cuGraphInstantiate(&e, g, 0));
  f.userData = &calls;
  OK(cuGraphExecHostNodeSetParams(e, called, &f));
  OK(cuMemsetD32(device, 9, N));
  OK(cuGraphLaunch(e, s));
  OK(cuStreamSynchronize(s));
  expect("copied by a graph", 0, N, 9);
  printf("calls: %d of the old function, %d of the new one\n", replaced, calls);
  OK(cuGraphExecDestroy(e));
  OK(cuGraphDestroy(g));
}

/* A kernel that waits in a stream and the program use different words of one page. */
static void wait_at_gate(void* unused) {
  (void)unused;
  sem_wait(&gate);
}

static void neighbours(void) {
  for (unsigned i = 0; i < N; ++i) host[i] = 1;
  OK(launch_bump(on_device, N / 2, 8, 1, s)); /* the last word of a page is not its own */
  OK(cuStreamSynchronize(s));
  OK(launch_bump(on_device + 4, N - 2, 10, 1, s));
  host[0] = 20;
  host[N - 1] = 30;
  OK(launch_bump(on_device, 1, 1, 1, s));
  OK(launch_bump(on_device + BYTES - 4, 1, 1, 1, s));
  OK(cuStreamSynchronize(s));
  printf("words of the program: %u %u\n", host[0], host[N - 1]);
  expect("words of kernels", 1, N / 2, 19);
}

/* Every second word, while a kernel has changed the others. */
static void many_words(void) {
  for (unsigned i = 0; i < N; ++i) host[i] = 0;
  OK(launch_bump(on_device, N, 1, 1, s));
  for (unsigned i = 0; i < N; i += 2) host[i] = 40;
  OK(launch_bump(on_device, N, 1, 1, s));
  OK(cuStreamSynchronize(s));
  printf("every second word: %u\n", host[1]);
}

static void rows(void) {
  CUDA_MEMCPY2D c = {0};
  c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  c.srcDevice = device;
  c.dstMemoryType = CU_MEMORYTYPE_HOST;
  c.dstHost = host;
  c.srcPitch = 2048;
  c.dstPitch = 4096;
  c.WidthInBytes = 2048;
  c.Height = 128;
  for (unsigned round = 0; round < ROUNDS; ++round) {
    OK(cuMemsetD32(on_device, 3, N));
    OK(cuMemsetD32Async(device, round, N, s));
    OK(cuMemcpy2DAsync(&c, s));
    OK(launch_bump(on_device, N, 2, 1, s));
    OK(cuStreamSynchronize(s));
    printf("rows: %u %u %u\n", host[0], host[511], host[512]);
    expect("behind the rows", N / 2, N, 5);
  }
}

/* A host function reads what a copy before it has written. */
static void read_word(void* out) {
  *(unsigned*)out = host[N - 1];
}

static void host_functions(void) {
  unsigned word = 0;
  OK(cuMemsetD32Async(device, 77, N, s));
  OK(launch_bump(on_device, N, 2, 1, s));
  OK(cuMemcpyDtoHAsync(host, device, BYTES, s));
  OK(cuLaunchHostFunc(s, read_word, &word));
  OK(cuStreamSynchronize(s));
  printf("host function: %u\n", word);
}

static void graphs(void) {
  CUgraph g;
  CUgraphExec e;
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(launch_bump(device, N, 1, 1, s));
  OK(cuMemcpyDtoHAsync(host, device, BYTES, s));
  OK(cuStreamEndCapture(s, &g));
  OK(cuGraphInstantiate(&e, g, 0));
  OK(cuMemsetD32(device, 0, N));
  for (unsigned round = 0; round < ROUNDS; ++round) {
    OK(launch_bump(on_device, N, 9, 1, s));
    OK(cuGraphLaunch(e, s));
    OK(launch_bump(on_device, N, 100, 1, s));
    OK(cuStreamSynchronize(s));
    expect("graph", 0, N, round + 101);
  }
  OK(cuGraphExecDestroy(e));
  OK(cuGraphDestroy(g));
}

/* A block that kernels see first while a copy to it is under way, and another stream waits. */
static void first_use(void) {
  CUstream other;
  unsigned* mine = host;
  CUdeviceptr mine_on_device = on_device;
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  OK(cuLaunchHostFunc(other, wait_at_gate, 0));
  OK(cuMemHostAlloc((void**)&host, BYTES, 0));
  OK(cuMemsetD32Async(device, 60, N, s));
  OK(cuMemcpyDtoHAsync(host, device, BYTES, s));
  OK(launch_bump((CUdeviceptr)host, N, 1, 1, s));
  OK(cuStreamSynchronize(s));
  expect("first use", 0, N, 61);
  sem_post(&gate);
  OK(cuStreamDestroy(other));
  OK(cuMemFreeHost(host));
  host = mine;
  on_device = mine_on_device;
}

/* A blocking stream waits for one that does not wait for it, also after changes of the program. */
static void waiting_stream(void) {
  CUstream waiting;
  CUdeviceptr word;
  OK(cuStreamCreate(&waiting, 0));
  OK(cuMemAlloc(&word, 4));
  OK(cuMemsetD32(word, 0, 1));
  OK(cuStreamWaitValue32(waiting, word, 1, CU_STREAM_WAIT_VALUE_EQ));
  host[0] = 80;
  OK(launch_bump(on_device, 1, 1, 1, s));
  OK(cuStreamWriteValue32(s, word, 1, 0));
  OK(cuStreamSynchronize(waiting));
  OK(cuStreamSynchronize(s));
  expect("beside a stream that waits", 0, 1, 81);
  OK(cuMemFree(word));
  OK(cuStreamDestroy(waiting));
}

static void all(const char* memory) {
  printf("-- %s\n", memory);
  copies_then_kernels();
  copies_then_changes();
  two_streams();
  neighbours();
  many_words();
  rows();
  host_functions();
  graphs();
  graph_with_replaced_function();
  waiting_stream();
}

int main(void) {
  create_context();
  sem_init(&gate, 0, 0);
  OK(cuStreamCreate(&s, 0));
  OK(cuMemAlloc(&device, BYTES));
  seen = malloc(BYTES);
  OK(cuMemHostAlloc((void**)&host, BYTES, 0));
  on_device = (CUdeviceptr)host;
  OK(cuMemsetD32(on_device, 0, N));
  all("pinned");
  first_use();
  OK(cuMemFreeHost(host));
  host = aligned_alloc(4096, BYTES);
  OK(cuMemHostRegister(host, BYTES, CU_MEMHOSTREGISTER_DEVICEMAP));
  OK(cuMemHostGetDevicePointer(&on_device, host, 0));
  all("registered");
  OK(cuMemHostUnregister(host));
  free(host);
  free(seen);
  OK(cuDevicePrimaryCtxReset(0));
  printf("done\n");
  return 0;
}
