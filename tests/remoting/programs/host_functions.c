/* A host function blocks its stream, a later copy reads what it wrote, other streams continue. */
#include <pthread.h>
#include "check.h"

enum { N = 1024 };
static unsigned* pinned;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int open_gate, called;

static void write_source(void* data) {
  for (int i = 0; i < N; ++i) pinned[i] = *(unsigned*)data;
}
static void wait_at_gate(void* data) {
  (void)data;
  pthread_mutex_lock(&mutex);
  called = 1;
  while (!open_gate) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
}
static void CUDA_CB callback(CUstream s, CUresult r, void* data) {
  (void)s;
  *(int*)data = 100 + (int)r;
}

int main(void) {
  CUdeviceptr p, q;
  CUstream s, other;
  unsigned value = 42, result[N];
  int seen = 0;
  create_context();
  OK(cuMemHostAlloc((void**)&pinned, N * 4, 0));
  OK(cuMemAlloc(&p, N * 4));
  OK(cuMemAlloc(&q, N * 4));
  OK(cuMemsetD32(q, 0, N));
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  OK(cuCtxSynchronize());
  memset(pinned, 0, N * 4);
  OK(cuLaunchHostFunc(s, write_source, &value));
  OK(cuMemcpyHtoDAsync(p, pinned, N * 4, s));
  OK(launch_bump(p, N, 1, 1, s));
  OK(cuStreamSynchronize(s));
  OK(cuMemcpyDtoH(result, p, sizeof result));
  printf("copied after the host function: %u %u\n", result[0], result[N - 1]);
  OK(cuLaunchHostFunc(s, wait_at_gate, 0));
  OK(launch_bump(p, N, 1000, 1, s));
  OK(launch_bump(q, N, 7, 1, other));
  OK(cuStreamSynchronize(other));
  printf("the blocked stream is not ready: %d\n", cuStreamQuery(s) == CUDA_ERROR_NOT_READY);
  pthread_mutex_lock(&mutex);
  open_gate = 1;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
  OK(cuStreamSynchronize(s));
  printf("the gate was reached: %d\n", called);
  OK(cuMemcpyDtoH(result, p, sizeof result));
  printf("after the gate: %u\n", result[5]);
  OK(cuMemcpyDtoH(result, q, sizeof result));
  printf("other stream: %u\n", result[5]);
  CUstream blocking; /* the legacy stream waits for a blocked blocking stream */
  OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
  open_gate = 0;
  OK(cuLaunchHostFunc(blocking, wait_at_gate, 0));
  OK(launch_bump(p, N, 5, 1, blocking));
  OK(launch_bump(p, N, 50, 1, 0));
  OK(launch_bump(q, N, 1, 1, other));
  OK(cuStreamSynchronize(other));
  printf("the legacy stream waits: %d\n", cuStreamQuery(0) == CUDA_ERROR_NOT_READY);
  pthread_mutex_lock(&mutex);
  open_gate = 1;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
  OK(cuCtxSynchronize());
  OK(cuMemcpyDtoH(result, p, sizeof result));
  printf("both ran: %u\n", result[7]);
  OK(cuStreamAddCallback(s, callback, &seen, 0));
  OK(cuStreamSynchronize(s));
  printf("callback: %d\n", seen);
  return 0;
}
