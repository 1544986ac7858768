/* One thread captures a stream again and again while three others make calls on it. Whether a call
 * succeeds depends on the order; the process survives, and the stream works afterwards. */
#include <pthread.h>
#include <stdatomic.h>
#include "check.h"

enum { ROUNDS = 10000, N = 256 };
static CUstream stream;
static CUevent event;
static CUdeviceptr target;
static atomic_int callers = 3;

static void* capture_repeatedly(void* unused) {
  OK(cuCtxSetCurrent(context));
  while (callers) {
    CUgraph g = 0;
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    cuStreamEndCapture(stream, &g);
    if (g) OK(cuGraphDestroy(g));
  }
  return unused;
}

static void* allocate(void* unused) {
  OK(cuCtxSetCurrent(context));
  for (int i = 0; i < ROUNDS; ++i) {
    CUdeviceptr p;
    if (cuMemAllocAsync(&p, 4096, stream)) continue;
    /* Memory of a captured allocation ends with its graph, and then cannot be freed. */
    for (int tries = 0; tries < 100 && cuMemFreeAsync(p, stream); ++tries) continue;
  }
  --callers;
  return unused;
}

static void* copy_and_launch(void* unused) {
  unsigned pageable[N] = {0};
  OK(cuCtxSetCurrent(context));
  for (int i = 0; i < ROUNDS; ++i) {
    cuMemcpyHtoDAsync(target, pageable, sizeof pageable, stream);
    launch_bump(target, N, 1, 1, stream);
    cuStreamQuery(stream);
  }
  --callers;
  return unused;
}

static void* record_and_wait(void* unused) {
  float milliseconds;
  OK(cuCtxSetCurrent(context));
  for (int i = 0; i < ROUNDS; ++i) {
    cuEventRecordWithFlags(event, stream, i % 2 ? CU_EVENT_RECORD_EXTERNAL : 0);
    cuStreamWaitEvent(stream, event, i % 4 < 2 ? CU_EVENT_WAIT_EXTERNAL : 0);
    cuEventElapsedTime(&milliseconds, event, event);
  }
  --callers;
  return unused;
}

int main(void) {
  void* (*calls[])(void*) = {capture_repeatedly, allocate, copy_and_launch, record_and_wait};
  pthread_t t[4];
  unsigned last[N], wrong = 0;
  create_context();
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  OK(cuMemAlloc(&target, sizeof last));
  for (int i = 0; i < 4; ++i) pthread_create(&t[i], 0, calls[i], 0);
  for (int i = 0; i < 4; ++i) pthread_join(t[i], 0);
  OK(cuMemsetD32Async(target, 7, N, stream));
  OK(cuMemcpyDtoHAsync(last, target, sizeof last, stream));
  OK(cuStreamSynchronize(stream));
  for (int i = 0; i < N; ++i) wrong += last[i] != 7;
  printf("wrong: %u\n", wrong);
  return 0;
}
