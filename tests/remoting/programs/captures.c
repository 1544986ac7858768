/* Captures in one of several contexts: the legacy stream of its own context must not be used
 * meanwhile, that of the others may. Captures end with their stream and with their context. */
#include "check.h"

#define N 256u

enum { A, B, CONTEXTS };
static CUcontext contexts[CONTEXTS];
static CUfunction bumps[CONTEXTS];
static CUdeviceptr memory[CONTEXTS];

static void use(int c) {
  OK(cuCtxSetCurrent(contexts[c]));
}

static void open_context(int c) {
  CUmodule m;
  CUdevice d;
  unsigned zeros[N] = {0};
  OK(cuDeviceGet(&d, 0));
  OK(cuCtxCreate(&contexts[c], 0, 0, d));
  OK(cuModuleLoadData(&m, PTX));
  OK(cuModuleGetFunction(&bumps[c], m, "bump"));
  OK(cuMemAlloc(&memory[c], sizeof zeros));
  OK(cuMemcpyHtoD(memory[c], zeros, sizeof zeros));
}

static CUresult launch(int c, CUstream s) {
  unsigned n = N, v = 1, rounds = 1;
  void* params[] = {&memory[c], &n, &v, &rounds};
  return cuLaunchKernel(bumps[c], 1, 1, 1, N, 1, 1, 0, s, params, 0);
}

static void show_memory(int c) {
  unsigned values[N];
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* the other context may capture */
  use(c);
  OK(cuThreadExchangeStreamCaptureMode(&mode));
  OK(cuMemcpyDtoH(values, memory[c], sizeof values));
  OK(cuThreadExchangeStreamCaptureMode(&mode));
  for (unsigned i = 1; i < N; ++i)
    if (values[i] != values[0]) printf("WRONG: %u at %u, %u at 0\n", values[i], i, values[0]);
  printf("context %c: %u\n", 'A' + c, values[0]);
}

static CUstream open_stream(int c, unsigned flags) {
  CUstream s;
  use(c);
  OK(cuStreamCreateWithPriority(&s, flags, -1));
  return s;
}

static void begin(int c, CUstream s) {
  use(c);
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(launch(c, s));
}

static CUresult run_on_legacy(int c) {
  use(c);
  return launch(c, CU_STREAM_LEGACY);
}

static void launch_graph(CUgraph g, CUstream s) {
  CUgraphExec x;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* the other context may capture */
  OK(cuThreadExchangeStreamCaptureMode(&mode));
  OK(cuGraphInstantiate(&x, g, 0));
  OK(cuThreadExchangeStreamCaptureMode(&mode));
  OK(cuGraphLaunch(x, s));
  OK(cuStreamSynchronize(s));
  OK(cuGraphExecDestroy(x));
  OK(cuGraphDestroy(g));
}

static void close_stream(int c, CUstream s) {
  use(c);
  OK(cuStreamDestroy(s));
}

static void end_and_launch(int c, CUstream s) {
  CUgraph g = 0;
  use(c);
  CUresult r = cuStreamEndCapture(s, &g);
  printf("the capture ends -> %d\n", (int)r);
  if (!r) launch_graph(g, s);
  show_memory(c);
}

static void capture_beside_another_context(unsigned flags) {
  printf("-- a capture on a stream with flags %u\n", flags);
  CUstream s = open_stream(A, flags), other = open_stream(B, 0);
  begin(A, s);
  SHOW(run_on_legacy(B));
  use(B);
  SHOW(launch(B, other));
  SHOW(cuStreamSynchronize(CU_STREAM_LEGACY));
  use(A);
  SHOW(launch(A, s));
  end_and_launch(A, s);
  show_memory(B);
  close_stream(A, s);
  close_stream(B, other);
}

static void legacy_stream_of_the_same_context(unsigned flags) {
  printf("-- legacy work beside a capture on a stream with flags %u\n", flags);
  CUstream s = open_stream(A, flags);
  begin(A, s);
  SHOW(run_on_legacy(A));
  SHOW(run_on_legacy(B));
  end_and_launch(A, s);
  close_stream(A, s);
  SHOW(run_on_legacy(A));
  show_memory(A);
  show_memory(B);
}

/* They use the legacy stream, which does not wait for the captured one. */
static void synchronous_copies(void) {
  unsigned values[N] = {0};
  CUdeviceptr host = (CUdeviceptr)values;
  CUstream s = open_stream(A, CU_STREAM_NON_BLOCKING);
  printf("-- synchronous copies beside a capture\n");
  for (int i = 0; i < 5; ++i) {
    begin(A, s);
    if (i == 0) SHOW(cuMemcpyHtoD(memory[A], values, sizeof values));
    if (i == 1) SHOW(cuMemcpyDtoH(values, memory[A], sizeof values));
    if (i == 2) SHOW(cuMemcpy(memory[A], host, sizeof values));
    if (i == 3) SHOW(cuMemcpy(host, memory[A], sizeof values));
    if (i == 4) SHOW(cuMemcpy(memory[A], memory[A], sizeof values));
    end_and_launch(A, s);
  }
  close_stream(A, s);
}

/* What is forbidden beside a capture of another stream, and even of another context. */
static void calls_beside_a_capture(void) {
  printf("-- calls beside a capture\n");
  CUstream s = open_stream(A, CU_STREAM_NON_BLOCKING), t = open_stream(B, CU_STREAM_NON_BLOCKING);
  CUevent e;
  CUgraph g;
  CUgraphExec x;
  CUdeviceptr p = memory[B];
  use(B);
  OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
  OK(cuEventRecord(e, t));
  OK(cuStreamSynchronize(t));
  OK(cuGraphCreate(&g, 0));
  for (int i = 0; i < 11; ++i) {
    begin(A, s);
    use(B);
    if (i == 0) SHOW(cuStreamSynchronize(t));
    if (i == 1) SHOW(cuStreamQuery(t));
    if (i == 2) SHOW(cuStreamQuery(CU_STREAM_LEGACY));
    if (i == 3) SHOW(cuEventSynchronize(e));
    if (i == 4) SHOW(cuEventQuery(e));
    if (i == 5) SHOW(cuGraphInstantiate(&x, g, 0));
    if (i == 6) SHOW(cuCtxSynchronize());
    if (i == 7) SHOW(cuMemAlloc(&p, 16));
    if (i == 8) SHOW(cuMemsetD8(memory[B], 0, 4));
    if (i == 9) SHOW(cuMemcpyHtoD(memory[B], &i, 4));
    if (i == 10) SHOW(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    end_and_launch(A, s);
  }
  OK(cuMemsetD32(memory[B], 0, N));
  OK(cuGraphDestroy(g));
  OK(cuEventDestroy(e));
  close_stream(B, t);
  close_stream(A, s);
}

static void captures_in_both_contexts(void) {
  printf("-- captures in both contexts\n");
  CUstream s = open_stream(A, 0), t = open_stream(B, 0);
  begin(A, s);
  begin(B, t);
  SHOW(run_on_legacy(B));
  SHOW(run_on_legacy(B));
  use(A);
  SHOW(launch(A, s));
  end_and_launch(A, s);
  end_and_launch(B, t);
  SHOW(run_on_legacy(A));
  SHOW(run_on_legacy(B));
  show_memory(A);
  show_memory(B);
  close_stream(B, t);
  close_stream(A, s);
}

/* Streams join the capture by its events. */
static void forked_capture(void) {
  printf("-- a capture of two streams\n");
  CUstream s = open_stream(A, CU_STREAM_NON_BLOCKING), fork = open_stream(A, 0);
  CUevent forked, joined;
  OK(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
  OK(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
  OK(launch(A, fork)); /* work before the stream joins */
  begin(A, s);
  OK(cuEventRecord(forked, s));
  OK(cuStreamWaitEvent(fork, forked, 0));
  OK(launch(A, fork));
  OK(cuEventRecord(joined, fork));
  SHOW(run_on_legacy(B));
  use(A);
  OK(cuStreamWaitEvent(s, joined, 0));
  OK(launch(A, s));
  end_and_launch(A, s);
  show_memory(B);
  use(A);
  SHOW(launch(A, fork)); /* work again */
  OK(cuEventRecord(forked, s));
  SHOW(cuStreamWaitEvent(fork, forked, 0));
  SHOW(launch(A, fork));
  SHOW(cuStreamSynchronize(fork));
  show_memory(A);

  /* The joined stream is an ordinary one: it invalidates the capture. */
  begin(A, s);
  OK(cuEventRecord(forked, s));
  OK(cuStreamWaitEvent(fork, forked, 0));
  SHOW(run_on_legacy(A));
  end_and_launch(A, s);
  OK(cuEventDestroy(forked));
  OK(cuEventDestroy(joined));
  close_stream(A, fork);
  close_stream(A, s);
}

/* An event of a capture that has ended joins none. */
static void event_of_an_ended_capture(void) {
  printf("-- an event of a capture that has ended\n");
  CUstream s = open_stream(A, 0), t = open_stream(A, 0), other = open_stream(A, 0);
  CUevent e;
  OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
  begin(A, s);
  OK(cuEventRecord(e, s));
  end_and_launch(A, s);
  begin(A, t);
  SHOW(cuStreamWaitEvent(other, e, 0));
  SHOW(launch(A, other));
  end_and_launch(A, t);
  OK(cuStreamSynchronize(other));
  show_memory(A);
  OK(cuEventDestroy(e));
  close_stream(A, other);
  close_stream(A, t);
  close_stream(A, s);
}

static void stream_that_ends_in_its_capture(void) {
  printf("-- a stream that ends in its capture\n");
  CUstream s = open_stream(A, 0);
  CUdeviceptr p;
  begin(A, s);
  SHOW(cuStreamDestroy(s));
  SHOW(cuMemAlloc(&p, 16)); /* forbidden beside a capture */
  OK(cuMemFree(p));
  SHOW(run_on_legacy(A));
  SHOW(run_on_legacy(B));
  show_memory(A);
  show_memory(B);
}

static void context_that_ends_with_a_capture(void) {
  printf("-- a context that ends with a capture\n");
  CUstream s = open_stream(A, 0);
  CUdeviceptr p;
  begin(A, s);
  SHOW(cuCtxDestroy(contexts[A]));
  SHOW(run_on_legacy(B));
  SHOW(cuMemAlloc(&p, 16));
  OK(cuMemFree(p));
  show_memory(B);
  open_context(A);
  SHOW(run_on_legacy(A));
  show_memory(A);
}

/* Its end frees memory, which the program must not beside the capture. */
static void context_that_ends_beside_a_capture(void) {
  printf("-- a context that ends beside a capture\n");
  CUstream s = open_stream(B, 0);
  begin(B, s);
  SHOW(cuCtxDestroy(contexts[A]));
  use(B);
  SHOW(launch(B, s));
  end_and_launch(B, s);
  close_stream(B, s);
  open_context(A);
}

static void primary_context_that_is_reset(void) {
  printf("-- a primary context that is reset with a capture\n");
  CUdevice d;
  CUcontext primary;
  CUstream s;
  CUdeviceptr p;
  OK(cuDeviceGet(&d, 0));
  OK(cuDevicePrimaryCtxRetain(&primary, d));
  OK(cuCtxSetCurrent(primary));
  OK(cuStreamCreate(&s, 0));
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  SHOW(cuDevicePrimaryCtxReset(d));
  SHOW(run_on_legacy(B));
  OK(cuDevicePrimaryCtxRetain(&primary, d));
  OK(cuCtxSetCurrent(primary));
  SHOW(cuMemAlloc(&p, 16));
  SHOW(cuMemsetD8Async(p, 1, 16, CU_STREAM_LEGACY));
  SHOW(cuStreamSynchronize(CU_STREAM_LEGACY));
  OK(cuDevicePrimaryCtxRelease(d));
  show_memory(B);
}

int main(void) {
  OK(cuInit(0));
  for (int c = 0; c < CONTEXTS; ++c) open_context(c);
  capture_beside_another_context(0);
  capture_beside_another_context(CU_STREAM_NON_BLOCKING);
  legacy_stream_of_the_same_context(0);
  legacy_stream_of_the_same_context(CU_STREAM_NON_BLOCKING);
  synchronous_copies();
  calls_beside_a_capture();
  captures_in_both_contexts();
  forked_capture();
  event_of_an_ended_capture();
  stream_that_ends_in_its_capture();
  context_that_ends_with_a_capture();
  context_that_ends_beside_a_capture();
  primary_context_that_is_reset();
  return 0;
}
