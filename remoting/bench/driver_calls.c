/* Measure driver API calls and print one JSON object of medians. The same source runs directly on
 * the driver and remoted. */
#include <cuda.h>
#include <pthread.h>
#include <stdint.h>
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
enum { BURST = 1000, BURSTS = 40, PINGS = 1000, ALLOCS = 200, COPIES = 7, THREADS = 4 };

static const char* PTX =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry nothing(.param .u64 a, .param .u32 b)\n{ ret; }\n";
static double samples[BURST * BURSTS];
static CUcontext context;
static CUfunction f;
static CUdeviceptr p;
static unsigned b = 1;
static void* params[] = {&p, &b};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
static int ascending(const void* x, const void* y) {
  double a = *(const double*)x, c = *(const double*)y;
  return (a > c) - (a < c);
}
static double at(int n, double share) {
  qsort(samples, (size_t)n, sizeof samples[0], ascending);
  return samples[(int)((n - 1) * share)];
}
static CUresult launch(CUstream s) {
  return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, params, 0);
}
#define TIMED(n, prepare, timed)     \
  for (int i_ = 0; i_ < (n); ++i_) { \
    prepare;                         \
    double t_ = now();               \
    timed;                           \
    samples[i_] = now() - t_;        \
  }

/* Return how often this process waited for a node; 0 without remoting. */
static uint64_t waits(void) {
  static const struct {
    int (*open)(void);
    void *identity, *sample;
    int (*version)(void);
    uint64_t (*waits)(void);
  }* bridge;
  if (!bridge) {
    const void* table = 0;
    CUuuid id;
    memcpy(&id, "busbarNvmlBridge", 16);
    if (cuGetExportTable(&table, &id)) return 0;
    bridge = table;
  }
  return bridge ? bridge->waits() : 0;
}

static void enqueue(void) {
  for (int k = 0; k < BURSTS; ++k) {
    OK(launch(0)); /* wake the consumer */
    for (int i = 0; i < BURST; ++i) {
      double t = now();
      OK(launch(0));
      samples[k * BURST + i] = now() - t;
    }
    OK(cuCtxSynchronize());
  }
  printf(", \"enqueue_p50_ns\": %.0f", at(BURST * BURSTS, 0.5));
  printf(", \"enqueue_p99_ns\": %.0f", at(BURST * BURSTS, 0.99));
}

static void* launcher(void* stream) {
  OK(cuCtxSetCurrent(context));
  for (int k = 0; k < BURSTS; ++k) {
    for (int i = 0; i < BURST; ++i) OK(launch(stream));
    OK(cuStreamSynchronize(stream));
  }
  return 0;
}

static double launches_per_s(int threads) {
  pthread_t t[THREADS];
  CUstream s[THREADS];
  for (int i = 0; i < threads; ++i) OK(cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
  double begin = now();
  for (int i = 0; i < threads; ++i) pthread_create(&t[i], 0, launcher, s[i]);
  for (int i = 0; i < threads; ++i) pthread_join(t[i], 0);
  double rate = (double)threads * BURST * BURSTS / ((now() - begin) / 1e9);
  for (int i = 0; i < threads; ++i) OK(cuStreamDestroy(s[i]));
  return rate;
}

static void copies(const char* kind, unsigned char* host, size_t bytes) {
  TIMED(COPIES, , {
    OK(cuMemcpyHtoD(p, host, bytes));
    OK(cuCtxSynchronize());
  });
  printf(", \"h2d_64mib%s_gib_s\": %.3f", kind, 1e9 / 16 / at(COPIES, 0.5));
  TIMED(COPIES, , OK(cuMemcpyDtoH(host, p, bytes)));
  printf(", \"d2h_64mib%s_gib_s\": %.3f", kind, 1e9 / 16 / at(COPIES, 0.5));
}

/* The calls of one SGD step of a three-layer network in PyTorch in steady state, as recorded at the
 * driver. */
static void training_step(CUstream s, CUdeviceptr q, float* loss) {
  CUdevice d;
  CUcontext c;
  unsigned flags;
  int active;
  for (int i = 0; i < 30; ++i) {
    for (int k = 0; k < 8; ++k) OK(cuCtxGetDevice(&d));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    OK(launch(s));
  }
  for (int i = 0; i < 13; ++i) OK(cuCtxGetCurrent(&c));
  for (int i = 0; i < 3; ++i) OK(cuMemsetD32Async(q, 0, 64, s));
  OK(cuMemcpyDtoHAsync(loss, q, 4, s));
  OK(cuStreamSynchronize(s));
}

static void start(void) {
  CUdevice d;
  CUmodule m;
  double begin = now();
  OK(cuInit(0));
  OK(cuDeviceGet(&d, 0));
  OK(cuDevicePrimaryCtxRetain(&context, d));
  OK(cuCtxSetCurrent(context));
  OK(cuModuleLoadData(&m, PTX));
  OK(cuModuleGetFunction(&f, m, "nothing"));
  OK(launch(0));
  unsigned long long trips = waits(); /* without the explicit wait below */
  OK(cuCtxSynchronize());
  printf("{\"init_to_first_kernel_ms\": %.3f, \"start_round_trips\": %llu", (now() - begin) / 1e6,
         trips);
}

static void launches(void) {
  enqueue();
  printf(", \"launches_per_s_1t\": %.0f", launches_per_s(1));
  printf(", \"launches_per_s_2t\": %.0f", launches_per_s(2));
  printf(", \"launches_per_s_4t\": %.0f", launches_per_s(4));
  TIMED(PINGS, , {
    OK(launch(0));
    OK(cuCtxSynchronize());
  });
  printf(", \"sync_us\": %.3f", at(PINGS, 0.5) / 1e3);
}

static void events(void) {
  CUevent e;
  OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
  TIMED(PINGS, , {
    OK(cuEventRecord(e, 0));
    cuEventQuery(e);
  });
  printf(", \"event_record_query_ns\": %.0f", at(PINGS, 0.5));
  OK(cuCtxSynchronize());
}

static void allocations(void) {
  TIMED(ALLOCS, , {
    OK(cuMemAlloc(&p, 2 << 20));
    OK(cuMemFree(p));
  });
  printf(", \"alloc_2mib_us\": %.3f", at(ALLOCS, 0.5) / 1e3);
}

static void large_copies(void) {
  size_t bytes = 64u << 20;
  unsigned char *pinned, *plain = malloc(bytes);
  OK(cuMemHostAlloc((void**)&pinned, bytes, 0));
  OK(cuMemAlloc(&p, bytes));
  for (size_t i = 0; i < bytes; ++i) pinned[i] = plain[i] = (unsigned char)(i * 2654435761u >> 13);
  copies("", pinned, bytes);
  copies("_pageable", plain, bytes);
}

static void small_copies(CUstream s) {
  unsigned char small[64] = {0};
  for (int k = 0; k < 10; ++k) {
    for (int i = 0; i < 100; ++i) {
      double t = now();
      OK(cuMemcpyHtoDAsync(p, small, sizeof small, s));
      samples[k * 100 + i] = now() - t;
    }
    OK(cuStreamSynchronize(s));
  }
  printf(", \"h2d_64b_ns\": %.0f", at(1000, 0.5));
  TIMED(PINGS, , OK(cuMemcpyDtoH(small, p, 4)));
  printf(", \"d2h_4b_us\": %.3f", at(PINGS, 0.5) / 1e3);
}

static void training_steps(CUstream s) {
  float* loss;
  OK(cuMemHostAlloc((void**)&loss, 4, 0));
  for (int i = 0; i < 3; ++i) training_step(s, p, loss);
  uint64_t before = waits();
  TIMED(100, , training_step(s, p, loss));
  printf(", \"training_step_waits\": %.2f, \"training_step_us\": %.1f}\n",
         (double)(waits() - before) / 100, at(100, 0.5) / 1e3);
}

int main(void) {
  CUstream s;
  start();
  launches();
  events();
  allocations();
  large_copies();
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  small_copies(s);
  training_steps(s);
  fflush(stdout);
  return 0;
}
