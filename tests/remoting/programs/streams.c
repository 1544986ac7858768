/* Order in streams, between streams by events, and with the legacy stream. */
#include "check.h"

enum { N = 4096 };
static unsigned out[N];

static unsigned long sum(CUdeviceptr p) {
  unsigned long total = 0;
  OK(cuMemcpyDtoH(out, p, sizeof out));
  for (int i = 0; i < N; ++i) total += out[i];
  return total;
}

int main(void) {
  CUdeviceptr p, q;
  CUstream a, b, free_stream;
  CUevent first, second;
  create_context();
  OK(cuMemAlloc(&p, sizeof out));
  OK(cuMemAlloc(&q, sizeof out));
  OK(cuMemsetD32(p, 0, N));
  OK(cuStreamCreate(&a, CU_STREAM_DEFAULT));
  OK(cuStreamCreate(&b, CU_STREAM_DEFAULT));
  OK(cuStreamCreate(&free_stream, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&first, CU_EVENT_DEFAULT));
  OK(cuEventCreate(&second, CU_EVENT_DEFAULT));
  OK(cuEventRecord(first, a));
  for (int i = 0; i < 200; ++i) OK(launch_bump(p, N, 1, 50, a));
  OK(cuEventRecord(second, a));
  OK(cuStreamWaitEvent(b, second, 0));
  OK(cuMemcpyDtoDAsync(q, p, sizeof out, b));
  OK(launch_bump(q, N, 5, 1, b));
  OK(cuStreamSynchronize(b));
  printf("after the event: %lu\n", sum(q));
  SHOW(cuEventQuery(second));
  float ms = -1;
  OK(cuEventElapsedTime(&ms, first, second));
  printf("elapsed time is positive: %d\n", ms > 0);
  for (int i = 0; i < 50; ++i) {
    OK(launch_bump(p, N, 1, 20, a));
    OK(launch_bump(q, N, 1, 20, b));
    OK(launch_bump(p, N, 1, 1, 0));
  }
  OK(cuCtxSynchronize());
  printf("after the legacy stream: %lu %lu\n", sum(p), sum(q));
  OK(launch_bump(p, N, 1, 1, free_stream));
  OK(cuStreamSynchronize(free_stream));
  SHOW(cuStreamQuery(free_stream));
  printf("non-blocking: %lu\n", sum(p));
  OK(cuStreamDestroy(a));
  SHOW(cuEventDestroy(first));
  return 0;
}
