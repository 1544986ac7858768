/* Give the GPU work without end: steady_work ROUNDS BATCH [OPTION...]
 *
 * BATCH kernels are a batch. Two batches are in the driver at any time, so that the GPU never waits
 * for this program. Prints "ready" when the first batch has completed. Options:
 *   blocks=N   each kernel has N blocks instead of one
 *   graph=N    N kernels are one graph, which is launched instead of them
 *   copies=N   copies of N bytes on the GPU instead of kernels
 *   long=N     the last N kernels of a batch are 2500 times as long
 *   every=MS   begins a batch every MS milliseconds instead of at once
 *   times      prints when each batch has completed, in nanoseconds of CLOCK_MONOTONIC
 *   results    each kernel begins with the result of the last one, which is printed after the time
 *   fill       takes all memory of the partition, and follows its size before each batch */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OK(call)                                     \
  do {                                               \
    CUresult r_ = (call);                            \
    if (r_) {                                        \
      fprintf(stderr, "%s -> %d\n", #call, (int)r_); \
      exit(1);                                       \
    }                                                \
  } while (0)
#define KERNEL(name, begin)                                                                   \
  ".visible .entry " name                                                                     \
  "(.param .u64 p, .param .u32 rounds)\n{\n.reg .pred q;\n.reg .b32 r<4>;\n.reg .b64 d<2>;\n" \
  "ld.param.u64 d1, [p];\nld.param.u32 r1, [rounds];\n" begin                                 \
  "MORE:\nmad.lo.u32 r2, r2, 1664525, 1013904223;\nsub.u32 r1, r1, 1;\n"                      \
  "setp.ne.u32 q, r1, 0;\n@q bra MORE;\nst.global.u32 [d1], r2;\nret;\n}\n"
static const char* PTX = ".version 7.0\n.target sm_70\n.address_size 64\n" KERNEL(
    "busy", "mov.u32 r2, %tid.x;\n") KERNEL("chained", "ld.global.u32 r2, [d1];\n");
enum { BATCHES = 2, LONG = 2500, CHUNK_BYTES = 16 << 20, MAX_CHUNKS = 1024 };

static struct {
  unsigned rounds, batch, blocks, graph, copies, long_ones, every, times, results, fill;
} options = {1000, 32, 1, 0, 0, 0, 0, 0, 0, 0};
static CUfunction busy;
static CUdeviceptr data, copied, chunks[MAX_CHUNKS];
static unsigned* results;
static CUstream stream;
static CUgraphExec graph;

static void read_option(const char* text) {
  sscanf(text, "blocks=%u", &options.blocks);
  sscanf(text, "graph=%u", &options.graph);
  sscanf(text, "copies=%u", &options.copies);
  sscanf(text, "long=%u", &options.long_ones);
  sscanf(text, "every=%u", &options.every);
  if (!strcmp(text, "times")) options.times = 1;
  if (!strcmp(text, "results")) options.results = 1;
  if (!strcmp(text, "fill")) options.fill = 1;
}

static void launch_kernel(unsigned rounds) {
  void* params[] = {&data, &rounds};
  OK(cuLaunchKernel(busy, options.blocks, 1, 1, 1, 1, 1, 0, stream, params, 0));
}

static void prepare(void) {
  CUcontext c;
  CUmodule m;
  CUgraph g;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&c, 0));
  OK(cuCtxSetCurrent(c));
  OK(cuModuleLoadData(&m, PTX));
  OK(cuModuleGetFunction(&busy, m, options.results ? "chained" : "busy"));
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&data, options.copies + 4));
  OK(cuMemAlloc(&copied, options.copies + 4));
  OK(cuMemsetD32(data, 0, 1));
  OK(cuMemAllocHost((void**)&results, BATCHES * sizeof *results));
  if (!options.graph) return;
  OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  for (unsigned i = 0; i < options.graph; ++i) launch_kernel(options.rounds);
  OK(cuStreamEndCapture(stream, &g));
  OK(cuGraphInstantiateWithFlags(&graph, g, 0));
}

static void fill_memory(void) {
  static size_t known, count;
  size_t unused, total;
  OK(cuMemGetInfo(&unused, &total));
  if (total > known)
    while (count < MAX_CHUNKS && !cuMemAlloc(&chunks[count], CHUNK_BYTES)) ++count;
  for (size_t freed = 0; total + freed < known && count; freed += CHUNK_BYTES)
    OK(cuMemFree(chunks[--count]));
  known = total;
}

static void submit_batch(unsigned* result) {
  for (unsigned i = 0; i < options.batch; i += options.graph ? options.graph : 1) {
    if (options.graph)
      OK(cuGraphLaunch(graph, stream));
    else if (options.copies)
      OK(cuMemcpyDtoDAsync(copied, data, options.copies, stream));
    else
      launch_kernel(options.rounds * (i < options.batch - options.long_ones ? 1 : LONG));
  }
  if (options.results) OK(cuMemcpyDtoHAsync(result, data, sizeof *result, stream));
}

// The first batches, before the program is ready, do not wait.
static void wait_for_batch(long batch) {
  static struct timespec begin;
  if (batch <= BATCHES) clock_gettime(CLOCK_MONOTONIC, &begin);
  if (batch <= BATCHES || !options.every) return;
  long long at = begin.tv_nsec + (batch - BATCHES) * options.every * 1000000LL;
  struct timespec due = {begin.tv_sec + at / 1000000000, at % 1000000000};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, 0);
}

static void print_time(unsigned result) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  printf("%lld", t.tv_sec * 1000000000LL + t.tv_nsec);
  if (options.results) printf(" %u", result);
  printf("\n");
  fflush(stdout);
}

int main(int n, char** v) {
  CUevent done[BATCHES];
  if (n < 3) return 2;
  options.rounds = (unsigned)atol(v[1]);
  options.batch = (unsigned)atol(v[2]);
  for (int i = 3; i < n; ++i) read_option(v[i]);
  prepare();
  for (int i = 0; i < BATCHES; ++i) OK(cuEventCreate(&done[i], CU_EVENT_DISABLE_TIMING));
  for (long batch = 0;; ++batch) {
    CUevent e = done[batch % BATCHES];
    if (batch >= BATCHES) OK(cuEventSynchronize(e));
    if (batch == BATCHES) {
      printf("ready\n");
      fflush(stdout);
    }
    if (batch > BATCHES && options.times) print_time(results[batch % BATCHES]);
    wait_for_batch(batch);
    if (options.fill) fill_memory();
    submit_batch(&results[batch % BATCHES]);
    OK(cuEventRecord(e, stream));
  }
}
