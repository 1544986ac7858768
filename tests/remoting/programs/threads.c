/* Four threads on one context: results are correct, and calls of several threads stay in order.
 * Four threads use one event and the flags of one device. */
#include <pthread.h>
#include "check.h"

enum { N = 2048, ROUNDS = 300 };
static CUdeviceptr shared;
static CUevent event;
static pthread_barrier_t barrier;

static void* own_stream(void* wrong) {
  CUdeviceptr p;
  CUstream s;
  unsigned out[N];
  OK(cuCtxSetCurrent(context));
  OK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
  OK(cuMemAlloc(&p, sizeof out));
  OK(cuMemsetD32Async(p, 0, N, s));
  for (int i = 0; i < ROUNDS; ++i) OK(launch_bump(p, N, 3, 1, s));
  OK(cuMemcpyDtoHAsync(out, p, sizeof out, s));
  OK(cuStreamSynchronize(s));
  for (int i = 0; i < N; ++i) *(int*)wrong += out[i] != 3 * ROUNDS;
  return 0;
}

/* 64 times, thread 1 reads the result of thread 0's launch before the barrier. */
static void* take_turns(void* index) {
  long me = (long)index, wrong = 0;
  unsigned value;
  OK(cuCtxSetCurrent(context));
  for (unsigned round = 1; round <= 64; ++round) {
    if (me == 0) OK(launch_bump(shared, 1, 1, 1000, 0));
    pthread_barrier_wait(&barrier);
    if (me == 1) {
      OK(cuMemcpyDtoH(&value, shared, 4));
      wrong += value != round * 1000;
    }
    pthread_barrier_wait(&barrier);
  }
  return (void*)wrong;
}

static void* record(void* unused) {
  OK(cuCtxSetCurrent(context));
  for (int i = 0; i < ROUNDS; ++i) OK(cuEventRecord(event, 0));
  return unused;
}

static void* measure(void* wrong) {
  float ms;
  OK(cuCtxSetCurrent(context));
  for (int i = 0; i < ROUNDS; ++i) {
    CUresult r = cuEventElapsedTime(&ms, event, event);
    *(int*)wrong += r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_READY;
  }
  return 0;
}

static void* set_flags(void* unused) {
  for (int i = 0; i < ROUNDS; ++i) OK(cuDevicePrimaryCtxSetFlags(0, 0));
  return unused;
}

static void* read_flags(void* wrong) {
  unsigned flags;
  int active;
  for (int i = 0; i < ROUNDS; ++i) {
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    *(int*)wrong += flags || !active;
  }
  return 0;
}

int main(void) {
  pthread_t t[4];
  int wrong[4] = {0};
  void* result;
  create_context();
  for (int i = 0; i < 4; ++i) pthread_create(&t[i], 0, own_stream, &wrong[i]);
  for (int i = 0; i < 4; ++i) pthread_join(t[i], 0);
  printf("wrong: %d %d %d %d\n", wrong[0], wrong[1], wrong[2], wrong[3]);
  OK(cuMemAlloc(&shared, 4));
  OK(cuMemsetD32(shared, 0, 1));
  pthread_barrier_init(&barrier, 0, 2);
  for (long i = 0; i < 2; ++i) pthread_create(&t[i], 0, take_turns, (void*)i);
  pthread_join(t[0], 0);
  pthread_join(t[1], &result);
  printf("reads before the launch: %ld\n", (long)result);
  void* (*users[])(void*) = {record, measure, set_flags, read_flags};
  int refused[4] = {0};
  OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  OK(cuEventRecord(event, 0));
  for (int i = 0; i < 4; ++i) pthread_create(&t[i], 0, users[i], &refused[i]);
  for (int i = 0; i < 4; ++i) pthread_join(t[i], 0);
  printf("refused: %d %d\n", refused[1], refused[3]);
  return 0;
}
