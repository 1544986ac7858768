/* Threads that use many parts of the API and check all results: soak SECONDS THREADS [shared|leak].
 * Prints the number of wrong results and the memory that was not released. */
#include <pthread.h>
#include <time.h>
#include <unistd.h>
#include "check.h"

enum { N = 3000 };
static double end_at;
static long rounds_done, wrong;
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
#define expect(values, n, expected) expect_at(__func__, __LINE__, values, n, expected)
static void expect_at(const char* function, int line, const unsigned* values, unsigned n,
                      unsigned expected) {
  for (unsigned i = 0; i < n; ++i)
    if (values[i] != expected) {
      fprintf(stderr, "%s:%d: value %u is %u, expected %u\n", function, line, i, values[i],
              expected);
      __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
      return;
    }
}
static void CUDA_CB count(void* data) {
  ++*(unsigned*)data;
}

static void copies(CUstream s, unsigned v) {
  CUdeviceptr p, q;
  unsigned *pinned, plain[N];
  OK(cuMemAlloc(&p, sizeof plain));
  OK(cuMemAllocAsync(&q, sizeof plain, s));
  OK(cuMemHostAlloc((void**)&pinned, sizeof plain, 0));
  for (int i = 0; i < N; ++i) pinned[i] = v;
  OK(cuMemcpyHtoDAsync(p, pinned, sizeof plain, s));
  OK(launch_bump(p, N, 5, 1, s));
  OK(cuMemcpyDtoDAsync(q, p, sizeof plain, s));
  OK(cuMemcpyDtoHAsync(plain, q, sizeof plain, s));
  OK(cuMemFreeAsync(q, s));
  OK(cuStreamSynchronize(s));
  expect(plain, N, v + 5);
  OK(cuMemFreeHost(pinned));
  OK(cuMemFree(p));
}

static void large(unsigned v) {
  size_t n = 1 << 20;
  unsigned* host = malloc(4 * n);
  CUdeviceptr p;
  OK(cuMemAlloc(&p, 4 * n));
  OK(cuMemsetD32(p, v, n));
  OK(cuMemcpyDtoH(host, p, 4 * n));
  expect(host, (unsigned)n, v);
  OK(cuMemFree(p));
  free(host);
}

static void functions_and_events(CUstream s) {
  CUstream other;
  CUevent e, f;
  unsigned calls = 0, value;
  CUdeviceptr p;
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&e, 0));
  OK(cuEventCreate(&f, CU_EVENT_DISABLE_TIMING));
  OK(cuMemAlloc(&p, 4));
  OK(cuMemsetD32Async(p, 1, 1, s));
  OK(cuEventRecord(e, s));
  OK(cuLaunchHostFunc(s, count, &calls));
  OK(cuEventRecord(f, s));
  OK(cuStreamWaitEvent(other, f, 0));
  OK(launch_bump(p, 1, 1, 1, other));
  OK(cuMemcpyDtoHAsync(&value, p, 4, other));
  OK(cuStreamSynchronize(other));
  expect(&value, 1, 2);
  expect(&calls, 1, 1);
  OK(cuEventSynchronize(e));
  OK(cuEventDestroy(e));
  OK(cuEventDestroy(f));
  OK(cuStreamDestroy(other));
  OK(cuMemFree(p));
}

static void graph(CUstream s, unsigned v) {
  CUgraph g;
  CUgraphExec x;
  CUdeviceptr p;
  unsigned out[64];
  OK(cuMemAlloc(&p, sizeof out));
  OK(cuMemsetD32Async(p, v, 64, s));
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(launch_bump(p, 64, 2, 1, s));
  OK(launch_bump(p, 64, 3, 1, s));
  OK(cuStreamEndCapture(s, &g));
  OK(cuGraphInstantiateWithFlags(&x, g, 0));
  for (int i = 0; i < 3; ++i) OK(cuGraphLaunch(x, s));
  OK(cuMemcpyDtoHAsync(out, p, sizeof out, s));
  OK(cuStreamSynchronize(s));
  expect(out, 64, v + 15);
  OK(cuGraphExecDestroy(x));
  OK(cuGraphDestroy(g));
  OK(cuMemFree(p));
}

static void code(void) {
  CUmodule m;
  CUfunction f;
  CUdeviceptr p;
  size_t bytes;
  OK(cuModuleLoadData(&m, PTX));
  OK(cuModuleGetFunction(&f, m, "bump"));
  OK(cuModuleGetGlobal(&p, &bytes, m, "counter"));
  unsigned value;
  OK(cuMemcpyDtoH(&value, p, 4));
  expect(&value, 1, 7);
  OK(cuModuleUnload(m));
}

static void* work(void* index) {
  unsigned seed = (unsigned)(size_t)index * 7919u + (unsigned)getpid();
  CUstream s;
  OK(cuCtxSetCurrent(context));
  while (now() < end_at) {
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 8; ++i) switch (rand_r(&seed) % 8) {
        case 0: large(rand_r(&seed)); break;
        case 1:
        case 2: functions_and_events(s); break;
        case 3: graph(s, rand_r(&seed)); break;
        case 4: code(); break;
        default: copies(s, rand_r(&seed));
      }
    OK(cuStreamDestroy(s));
    __atomic_add_fetch(&rounds_done, 1, __ATOMIC_RELAXED);
  }
  return 0;
}

int main(int n, char** v) {
  int threads = n > 2 ? atoi(v[2]) : 8;
  pthread_t t[64];
  size_t before, after, total;
  create_context();
  OK(cuMemGetInfo(&before, &total));
  end_at = now() + (n > 1 ? atof(v[1]) : 1);
  for (long i = 0; i < threads; ++i) pthread_create(&t[i], 0, work, (void*)i);
  for (int i = 0; i < threads; ++i) pthread_join(t[i], 0);
  if (n > 3 && !strcmp(v[3], "leak")) OK(cuMemAlloc(&(CUdeviceptr){0}, 64 << 20));
  OK(cuCtxSynchronize());
  OK(cuMemPoolTrimTo(({
                       CUmemoryPool p;
                       OK(cuDeviceGetDefaultMemPool(&p, 0));
                       p;
                     }),
                     0));
  OK(cuMemGetInfo(&after, &total));
  fprintf(stderr, "%ld rounds\n", rounds_done);
  /* With "shared", other programs use the same allocation. */
  long long kept = n > 3 && !strcmp(v[3], "shared") ? 0 : (long long)(before - after);
  printf("wrong %ld, bytes not released %lld\n", wrong, kept);
  return wrong != 0 || kept;
}
