/* An ordinary program on the CUDA driver API, without any dependency on Busbar.
 *   gpu_demo add              Add vectors and check the result.
 *   gpu_demo memory           Print total and free memory as JSON.
 *   gpu_demo exhaust          Allocate until memory is exhausted, free, allocate again.
 *   gpu_demo work SECONDS [PAUSE_MS]
 *                             Launch and check repeatedly, with a pause after each round. Prints
 *                             "working" after the first round. SIGTERM ends it after the current
 *                             round.
 */
#include <cuda.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char* PTX =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry add(.param .u64 a, .param .u64 b, .param .u32 n, .param .u32 rounds)\n{\n"
    ".reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<6>; .reg .f32 %f<4>;\n"
    "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u32 %r1, [n]; "
    "ld.param.u32 %r6, [rounds];\n"
    "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; "
    "mad.lo.s32 %r5, %r2, %r3, %r4;\n"
    "setp.ge.u32 %p1, %r5, %r1; @%p1 bra DONE;\n"
    "mul.wide.u32 %rd3, %r5, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;\n"
    "ld.global.f32 %f1, [%rd4]; ld.global.f32 %f2, [%rd5]; mov.u32 %r7, 0;\n"
    "AGAIN: add.f32 %f2, %f2, %f1; add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, %r6; "
    "@%p2 bra AGAIN;\n"
    "st.global.f32 [%rd5], %f2;\n"
    "DONE: ret;\n}\n";

#define CHECK(call)                                                 \
  do {                                                              \
    CUresult r = (call);                                            \
    if (r) {                                                        \
      const char* n = "?";                                          \
      cuGetErrorName(r, &n);                                        \
      fprintf(stderr, "%s: %s (%d)\n", #call, n ? n : "?", (int)r); \
      return 1;                                                     \
    }                                                               \
  } while (0)

enum { N = 1 << 16 };
static float a[N], b[N];

static int add_once(CUfunction f, CUdeviceptr da, CUdeviceptr db, unsigned rounds) {
  unsigned n = N;
  void* params[] = {&da, &db, &n, &rounds};
  for (int i = 0; i < N; ++i) {
    a[i] = (float)(i % 100);
    b[i] = 1.0f;
  }
  CHECK(cuMemcpyHtoD(da, a, sizeof a));
  CHECK(cuMemcpyHtoD(db, b, sizeof b));
  CHECK(cuLaunchKernel(f, N / 256, 1, 1, 256, 1, 1, 0, 0, params, 0));
  CHECK(cuMemcpyDtoH(b, db, sizeof b));
  for (int i = 0; i < N; ++i)
    if (b[i] != 1.0f + (float)rounds * (float)(i % 100)) {
      fprintf(stderr, "wrong at %d: %f\n", i, b[i]);
      return 1;
    }
  return 0;
}

static int memory(void) {
  size_t free_bytes, total_bytes;
  CHECK(cuMemGetInfo(&free_bytes, &total_bytes));
  printf("{\"total_bytes\": %zu, \"free_bytes\": %zu}\n", total_bytes, free_bytes);
  return 0;
}

static int exhaust(void) {
  static CUdeviceptr held[65536];
  size_t chunk = 16u << 20, sum = 0;
  int n = 0;
  CUresult r = CUDA_SUCCESS;
  while (n < 65536 && (r = cuMemAlloc(&held[n], chunk)) == CUDA_SUCCESS) {
    ++n;
    sum += chunk;
  }
  for (int i = 0; i < n; ++i) CHECK(cuMemFree(held[i]));
  CUdeviceptr again;
  CHECK(cuMemAlloc(&again, sum / 2));
  CHECK(cuMemFree(again));
  printf("{\"allocated_bytes\": %zu, \"error\": %d}\n", sum, (int)r);
  return r == CUDA_ERROR_OUT_OF_MEMORY ? 0 : 1;
}

static volatile sig_atomic_t stopped;

static void stop(int signal_number) {
  (void)signal_number;
  stopped = 1;
}

static int work(CUfunction f, CUdeviceptr da, CUdeviceptr db, double seconds, long pause_ms) {
  struct timespec begin, now, pause = {pause_ms / 1000, pause_ms % 1000 * 1000000};
  clock_gettime(CLOCK_MONOTONIC, &begin);
  int rounds = 0;
  signal(SIGTERM, stop);
  do {
    if (add_once(f, da, db, 2000)) return 1;
    if (rounds++ == 0) {
      printf("working\n");
      fflush(stdout);
    }
    if (pause_ms > 0) nanosleep(&pause, NULL);
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (!stopped &&
           (double)(now.tv_sec - begin.tv_sec) + (double)(now.tv_nsec - begin.tv_nsec) / 1e9 <
               seconds);
  printf("correct after %d rounds\n", rounds);
  return 0;
}

static int is_known(const char* verb) {
  static const char* const known[] = {"add", "memory", "exhaust", "work"};
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
    if (!strcmp(verb, known[i])) return 1;
  return 0;
}

int main(int argc, char** argv) {
  const char* verb = argc > 1 ? argv[1] : "add";
  if (!is_known(verb)) {
    fprintf(stderr,
            "gpu_demo: unknown program \"%s\"; choose add, memory, exhaust or work SECONDS "
            "[PAUSE_MS]\n",
            verb);
    return 2;
  }
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction f;
  CUdeviceptr da, db;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  if (!strcmp(verb, "memory")) return memory();
  if (!strcmp(verb, "exhaust")) return exhaust();
  CHECK(cuModuleLoadData(&module, PTX));
  CHECK(cuModuleGetFunction(&f, module, "add"));
  CHECK(cuMemAlloc(&da, sizeof a));
  CHECK(cuMemAlloc(&db, sizeof b));
  if (!strcmp(verb, "work"))
    return work(f, da, db, argc > 2 ? atof(argv[2]) : 1, argc > 3 ? atol(argv[3]) : 0);
  if (add_once(f, da, db, 1)) return 1;
  char name[100];
  CHECK(cuDeviceGetName(name, sizeof name, device));
  printf("%d sums are correct on %s\n", N, name);
  return 0;
}
