/* A program that leaves work behind which never ends: endless NAME. Prints "ready" when it has
 * submitted the work, and exits after the next line of input.
 */
#include <unistd.h>
#include "check.h"

enum { BEHIND = 3000, FOR_EACH_KERNEL = 100, KERNELS = BEHIND / FOR_EACH_KERNEL };

static CUstream stream;
static CUdeviceptr word;
static CUfunction spin;

/* Runs until the word is not 0. */
static const char* SPIN_PTX =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry spin(.param .u64 p)\n{\n.reg .pred %p<2>; .reg .b32 %r<2>; .reg .b64 %rd<2>;\n"
    "ld.param.u64 %rd1, [p];\nMORE: ld.volatile.global.u32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 0;\n"
    "@%p1 bra MORE; ret;\n}\n";

static void CUDA_CB wait_for_ever(void* unused) {
  (void)unused;
  for (;;) pause();
}

static void kernel(void) {
  void* params[] = {&word};
  OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, params, 0));
}

/* More events than the queue of a stream holds in the driver: the session server waits in the
 * driver. Kernels of other streams tell how many of them it has recorded. */
static void full_queue(void) {
  CUstream counting[KERNELS];
  CUevent event;
  CUdeviceptr count;
  for (int i = 0; i < KERNELS; ++i) OK(cuStreamCreate(&counting[i], CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cuMemAlloc(&count, 4));
  kernel();
  for (int i = 0; i < BEHIND; ++i) {
    if (i % FOR_EACH_KERNEL == 0) OK(launch_bump(count, 1, 1, 1, counting[i / FOR_EACH_KERNEL]));
    OK(cuEventRecord(event, stream));
  }
}

static void graph(void) {
  CUgraph g;
  CUgraphExec exec;
  OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  kernel();
  OK(cuStreamEndCapture(stream, &g));
  OK(cuGraphInstantiateWithFlags(&exec, g, 0));
  OK(cuGraphLaunch(exec, stream));
}

static void host_function(void) {
  OK(cuLaunchHostFunc(stream, wait_for_ever, 0));
}

static void graph_host_function(void) {
  CUgraph g;
  CUgraphNode node;
  CUgraphExec exec;
  CUDA_HOST_NODE_PARAMS p = {wait_for_ever, 0};
  OK(cuGraphCreate(&g, 0));
  OK(cuGraphAddHostNode(&node, g, 0, 0, &p));
  OK(cuGraphInstantiateWithFlags(&exec, g, 0));
  OK(cuGraphLaunch(exec, stream));
}

static void wait_value(void) {
  OK(cuStreamWaitValue32(stream, word, 7, CU_STREAM_WAIT_VALUE_EQ));
}

int main(int n, char** v) {
  static const struct {
    const char* name;
    void (*submit)(void);
  } all[] = {{"kernel", kernel},
             {"full_queue", full_queue},
             {"graph", graph},
             {"host_function", host_function},
             {"graph_host_function", graph_host_function},
             {"wait_value", wait_value}};
  CUmodule m;
  char line[8];
  create_context();
  OK(cuModuleLoadData(&m, SPIN_PTX));
  OK(cuModuleGetFunction(&spin, m, "spin"));
  OK(cuMemAlloc(&word, 4));
  OK(cuMemsetD32(word, 0, 1));
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuCtxSynchronize());
  for (unsigned i = 0; n > 1 && i < sizeof all / sizeof all[0]; ++i)
    if (!strcmp(v[1], all[i].name)) {
      all[i].submit();
      printf("ready\n");
      fflush(stdout);
      return !fgets(line, sizeof line, stdin);
    }
  printf("usage: endless NAME\n");
  return 2;
}
