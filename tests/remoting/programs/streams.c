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

/* Counts in memory, for tens of milliseconds. */
static const char* COUNT_PTX =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry count(.param .u64 p)\n{\n.reg .pred %p; .reg .b32 %r, %i; .reg .b64 %a;\n"
    "ld.param.u64 %a, [p]; mov.u32 %i, 0;\n"
    "MORE: ld.volatile.global.u32 %r, [%a]; add.u32 %r, %r, 1; st.volatile.global.u32 [%a], %r;\n"
    "add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 30000000; @%p bra MORE; ret;\n}\n";

/* Freed memory is used again only after the work of a stream that is destroyed. */
static void free_behind_a_destroyed_stream(void) {
  CUdeviceptr p, q;
  CUstream s;
  CUevent end;
  CUmodule m;
  CUfunction count;
  void* params[] = {&p};
  OK(cuModuleLoadData(&m, COUNT_PTX));
  OK(cuModuleGetFunction(&count, m, "count"));
  OK(cuMemAlloc(&p, sizeof out));
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&end, CU_EVENT_DEFAULT));
  OK(cuLaunchKernel(count, 1, 1, 1, 1, 1, 1, 0, s, params, 0));
  OK(cuEventRecord(end, s));
  OK(cuStreamDestroy(s));
  OK(cuMemFree(p));
  OK(cuMemAlloc(&q, sizeof out));
  OK(cuMemsetD32(q, 0, N));
  OK(cuEventSynchronize(end));
  printf("after a destroyed stream: %lu\n", sum(q));
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
  free_behind_a_destroyed_stream();
  SHOW(cuEventDestroy(first));
  return 0;
}
