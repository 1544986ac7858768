/* Two devices of one or two nodes: kernels, copies between the devices, events across devices. */
#include "check.h"

#define N 1500000u

static CUcontext contexts[2];
static CUmodule modules[2];
static CUfunction bumps[2];

static void use(int d) {
  OK(cuCtxSetCurrent(contexts[d]));
}

static void launch(int d, CUdeviceptr p, unsigned v, unsigned rounds, CUstream s) {
  unsigned n = N;
  void* params[] = {&p, &n, &v, &rounds};
  use(d);
  OK(cuLaunchKernel(bumps[d], (N + 255) / 256, 1, 1, 256, 1, 1, 0, s, params, 0));
}

static void expect(const char* name, CUdeviceptr p, unsigned v) {
  static unsigned host[N];
  memset(host, 0, sizeof host);
  OK(cuMemcpyDtoH(host, p, sizeof host));
  for (unsigned i = 0; i < N; ++i)
    if (host[i] != v) {
      printf("%s: WRONG at %u: %u, expected %u\n", name, i, host[i], v);
      exit(1);
    }
  printf("%s: all %u\n", name, v);
}

/* A query of its state creates the handle of a primary context that is not active. */
static void free_host_memory_beside_an_inactive_context(void) {
  CUdevice device;
  unsigned flags;
  int active = -1;
  void* memory;
  OK(cuDeviceGet(&device, 1));
  OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
  printf("the second context is active: %d\n", active);
  OK(cuMemHostAlloc(&memory, 4096, 0));
  OK(cuMemFreeHost(memory));
}

int main(void) {
  int count = 0;
  OK(cuInit(0));
  OK(cuDeviceGetCount(&count));
  printf("devices %d\n", count);
  CUdeviceptr p[2];
  char bus[2][32];
  for (int d = 0; d < 2; ++d) {
    CUdevice device;
    OK(cuDeviceGet(&device, d));
    OK(cuDeviceGetPCIBusId(bus[d], 32, device));
    OK(cuDevicePrimaryCtxRetain(&contexts[d], device));
    use(d);
    OK(cuModuleLoadData(&modules[d], PTX));
    OK(cuModuleGetFunction(&bumps[d], modules[d], "bump"));
    OK(cuMemAlloc(&p[d], N * 4));
    OK(cuMemsetD32(p[d], 10 * (unsigned)(d + 1), N));
    free_host_memory_beside_an_inactive_context();
  }
  printf("bus ids differ: %d\n", strcmp(bus[0], bus[1]) != 0);
  printf("ranges are disjoint: %d\n", p[0] + N * 4 <= p[1] || p[1] + N * 4 <= p[0]);
  int ordinal = -1;
  OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p[1]));
  printf("ordinal of the second range: %d\n", ordinal);
  launch(0, p[0], 1, 5, 0);
  launch(1, p[1], 2, 5, 0);
  use(0);
  expect("first", p[0], 15);
  use(1);
  expect("second", p[1], 30);

  /* The copy runs after the preceding kernel on the other device and before the following kernel.
   */
  launch(0, p[0], 1, 400, 0);
  OK(cuMemcpyPeer(p[1], contexts[1], p[0], contexts[0], N * 4));
  launch(1, p[1], 1, 1, 0);
  use(1);
  expect("peer copy", p[1], 416);

  /* A stream of the second device waits for an event of the first. */
  CUstream a, b;
  CUevent e;
  use(0);
  OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
  use(1);
  OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
  launch(0, p[0], 1, 300, a);
  use(0);
  OK(cuEventRecord(e, a));
  use(1);
  OK(cuStreamWaitEvent(b, e, 0));
  OK(cuMemcpyPeerAsync(p[1], contexts[1], p[0], contexts[0], N * 4, b));
  launch(1, p[1], 1, 2, b);
  OK(cuStreamSynchronize(b));
  expect("asynchronous peer copy", p[1], 717);

  /* The address selects the device, independent of the current context. */
  use(0);
  static unsigned host[N];
  for (unsigned i = 0; i < N; ++i) host[i] = 3;
  OK(cuMemcpyHtoD(p[1], host, sizeof host));
  expect("copied with the other context current", p[1], 3);
  OK(cuMemcpy(p[0], p[1], N * 4));
  expect("generic copy between devices", p[0], 3);
  OK(cuMemcpy((CUdeviceptr)(size_t)host, p[1], 4));
  OK(cuMemcpy(p[0] + 4, (CUdeviceptr)(size_t)host, 4));
  expect("generic copies with the host", p[0], 3);
  OK(cuMemsetD32(p[1], 9, N));
  expect("set with the other context current", p[1], 9);
  SHOW(cuMemcpyDtoD(p[0], 4096, 16));
  OK(cuMemFree(p[1]));
  use(1);
  OK(cuMemFree(p[0]));
  printf("done\n");
  return 0;
}
