/* Cases that naive remoting gets wrong: traps NAME. Prints `NAME: passed` or the problem. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"

enum { N = 5000 };
static const char* trap;
static void report(int passed, const char* problem) {
  printf("%s: %s\n", trap, passed ? "passed" : problem);
  fflush(stdout);
  if (!passed) _exit(1);
}
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static atomic_int gate, at_gate;
static void CUDA_CB wait_at_gate(void* data) {
  (void)data;
  at_gate = 1;
  while (!gate) {
    struct timespec t = {0, 1000000};
    nanosleep(&t, 0);
  }
}

static unsigned* pinned(void) {
  unsigned* p;
  OK(cuMemHostAlloc((void**)&p, 4 * N, 0));
  memset(p, 0, 4 * N);
  return p;
}
static int all(const unsigned* p, unsigned v) {
  for (int i = 0; i < N; ++i)
    if (p[i] != v) return 0;
  return 1;
}

static void CUDA_CB fill(void* p) {
  for (int i = 0; i < N; ++i) ((unsigned*)p)[i] = 42;
}
/* A copy reads what a host function writes after the copy call has returned. */
static void late_read(void) {
  unsigned *source = pinned(), back[N];
  CUstream s;
  CUdeviceptr p;
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&p, 4 * N));
  OK(cuLaunchHostFunc(s, fill, source));
  OK(cuMemcpyHtoDAsync(p, source, 4 * N, s));
  OK(cuMemcpyDtoHAsync(back, p, 4 * N, s));
  OK(cuStreamSynchronize(s));
  report(all(back, 42), "the copy read too early");
}

/* Data arrives without a call that waits for it. */
static void polled_download(void) {
  volatile unsigned* target = pinned();
  CUdeviceptr p;
  CUstream s;
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&p, 4 * N));
  OK(cuMemsetD32Async(p, 7, N, s));
  OK(cuMemcpyDtoHAsync((void*)target, p, 4 * N, s));
  double end = now() + 20;
  while (target[N - 1] != 7 && now() < end) {
  }
  report(target[N - 1] == 7, "no data arrived while the program polled");
}

/* When an event is complete, the data of earlier copies has arrived. */
static void download_before_event(void) {
  unsigned* target = pinned();
  CUdeviceptr p;
  CUstream s;
  CUevent e;
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
  OK(cuMemAlloc(&p, 4 * N));
  for (unsigned round = 1; round < 200; ++round) {
    OK(cuMemsetD32Async(p, round, N, s));
    OK(cuMemcpyDtoHAsync(target, p, 4 * N, s));
    OK(cuEventRecord(e, s));
    while (cuEventQuery(e) == CUDA_ERROR_NOT_READY) {
    }
    if (!all(target, round)) report(0, "the event completed before the data arrived");
  }
  report(1, "");
}

/* A host function blocks one stream; other streams and calls continue. */
static void parked_stream(void) {
  CUstream held, other;
  CUmodule m;
  CUfunction f;
  CUdeviceptr p, q;
  unsigned value;
  OK(cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&p, 4 * N));
  OK(cuLaunchHostFunc(held, wait_at_gate, 0));
  OK(cuMemsetD32Async(p, 9, N, held));
  while (!at_gate) {
  }
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  OK(cuModuleLoadData(&m, PTX));
  OK(cuModuleGetFunction(&f, m, "bump"));
  OK(cuMemAlloc(&q, 4 * N));
  OK(cuMemsetD32Async(q, 1, N, other));
  OK(launch_bump(q, N, 2, 1, other));
  OK(cuMemcpyDtoHAsync(&value, q, 4, other));
  OK(cuStreamSynchronize(other));
  int passed = value == 3 && cuStreamQuery(held) == CUDA_ERROR_NOT_READY;
  OK(cuStreamDestroy(other));
  gate = 1;
  OK(cuStreamSynchronize(held));
  OK(cuMemcpyDtoH(&value, p, 4));
  OK(cuMemFree(q));
  OK(cuModuleUnload(m));
  report(passed && value == 9, "the blocked stream blocked others, or was not blocked");
}

static void* on_own_default_stream(void* out) {
  CUdeviceptr p;
  OK(cuCtxSetCurrent(context));
  OK(cuMemAlloc(&p, 4 * N));
  OK(cuMemsetD32Async(p, 5, N, CU_STREAM_PER_THREAD));
  OK(launch_bump(p, N, 6, 1, CU_STREAM_PER_THREAD));
  OK(cuMemcpyDtoHAsync(out, p, 4, CU_STREAM_PER_THREAD));
  OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
  return 0;
}
/* Each thread has its own default stream; a blocked one does not block another. */
static void per_thread_default_stream(void) {
  pthread_t t;
  unsigned value = 0;
  OK(cuLaunchHostFunc(CU_STREAM_PER_THREAD, wait_at_gate, 0));
  while (!at_gate) {
  }
  pthread_create(&t, 0, on_own_default_stream, &value);
  pthread_join(t, 0);
  int passed = value == 11 && cuStreamQuery(CU_STREAM_PER_THREAD) == CUDA_ERROR_NOT_READY;
  gate = 1;
  OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
  report(passed, "the threads share a default stream");
}

/* 32,764 bytes of parameters, as kernelParams and as extra. */
static void large_parameters(void) {
  static const char* text =
      ".version 8.1\n.target sm_70\n.address_size 64\n"
      ".visible .entry last(.param .u64 out, .param .align 4 .b8 block[32752])\n{\n"
      ".reg .b32 %r<3>; .reg .b64 %rd<2>;\n"
      "ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [block]; ld.param.u32 %r2, [block+32748]; "
      "add.u32 %r1, %r1, %r2; st.global.u32 [%rd1], %r1; ret;\n}\n";
  CUmodule m;
  CUfunction f;
  CUdeviceptr p;
  static unsigned block[32752 / 4];
  unsigned value[2];
  OK(cuModuleLoadData(&m, text));
  OK(cuModuleGetFunction(&f, m, "last"));
  OK(cuMemAlloc(&p, 8));
  block[0] = 40, block[32752 / 4 - 1] = 2;
  void* params[] = {&p, block};
  OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, params, 0));
  static struct {
    CUdeviceptr p;
    unsigned block[32752 / 4];
  } packed;
  packed.p = p + 4;
  memcpy(packed.block, block, sizeof block);
  packed.block[0] = 50;
  size_t bytes = 8 + sizeof block;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, 0, extra));
  OK(cuMemcpyDtoH(value, p, 8));
  report(value[0] == 42 && value[1] == 52, "the last parameters were lost");
}

/* A forked child has no GPU, and its exit does not end the parent's session. */
static void forked_child(void) {
  CUdeviceptr p;
  unsigned value;
  OK(cuMemAlloc(&p, 4));
  OK(cuMemsetD32(p, 6, 1));
  pid_t child = fork();
  if (!child)
    exit(cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED &&
                 cuMemcpyDtoH(&value, p, 4) == CUDA_ERROR_NOT_INITIALIZED
             ? 0
             : 1);
  int status = 0;
  waitpid(child, &status, 0);
  OK(cuMemcpyDtoH(&value, p, 4));
  report(WIFEXITED(status) && WEXITSTATUS(status) == 0 && value == 6,
         "the child used its parent's session, or ended it");
}

/* Destructors call the driver after its shutdown. */
static CUdeviceptr of_destructor;
__attribute__((destructor)) static void late(void) {
  if (!of_destructor) return;
  CUresult r = cuMemFree(of_destructor);
  printf("%s: %s\n", trap,
         r == CUDA_ERROR_DEINITIALIZED || r == CUDA_SUCCESS ? "passed" : "another error");
}
static void exit_order(void) {
  OK(cuMemAlloc(&of_destructor, 4096));
}

/* The program exits while other threads make calls. */
static atomic_int callers;
static void* call_repeatedly(void* unused) {
  CUdeviceptr p;
  OK(cuCtxSetCurrent(context));
  ++callers;
  for (;;)
    if (!cuMemAllocAsync(&p, 4096, CU_STREAM_PER_THREAD)) cuMemFreeAsync(p, CU_STREAM_PER_THREAD);
  return unused;
}
static void exit_during_calls(void) {
  pthread_t t;
  for (int i = 0; i < 8; ++i) pthread_create(&t, 0, call_repeatedly, 0);
  while (callers < 8) {
  }
  report(1, "");
}

/* Data arrives for memory that the program has unmapped: an error, but no crash. */
static void unmapped_target(void) {
  CUdeviceptr p;
  CUstream s;
  unsigned* target = mmap(0, 4 * N, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&p, 4 * N));
  OK(cuMemHostRegister(target, 4 * N, 0));
  OK(cuLaunchHostFunc(s, wait_at_gate, 0));
  OK(cuMemcpyDtoHAsync(target, p, 4 * N, s));
  while (!at_gate) {
  }
  munmap(target, 4 * N);
  gate = 1;
  cuStreamSynchronize(s);
  report(1, "");
}

/* A free waits for work that was submitted before it on any stream. */
static void hole_in_order(void) {
  CUdeviceptr p, q;
  CUstream s;
  unsigned back[N];
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&p, 4 * N));
  OK(cuMemAlloc(&q, 4 * N));
  OK(cuMemsetD32Async(p, 3, N, s));
  OK(launch_bump(p, N, 1, 50000, s));
  OK(cuMemcpyDtoDAsync(q, p, 4 * N, s));
  OK(cuMemFree(p));
  CUdeviceptr r;
  OK(cuMemAlloc(&r, 4 * N)); /* possibly the same address */
  OK(cuMemsetD32(r, 0, N));
  OK(cuMemcpyDtoHAsync(back, q, 4 * N, s));
  OK(cuStreamSynchronize(s));
  report(all(back, 50003), "memory was reused while a kernel wrote to it");
}

/* Output of a kernel precedes output of the program after it has waited for the kernel. */
static void kernel_prints(void) {
  static const char* text =
      ".version 7.0\n.target sm_70\n.address_size 64\n"
      ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n"
      ".global .align 1 .b8 format[14] = {116, 104, 114, 101, 97, 100, 32, 37, 117, 32, 37, 117, "
      "10, 0};\n"
      ".visible .entry print(.param .u32 v)\n{\n.local .align 8 .b8 depot[8]; .reg .b64 %rd<6>; "
      ".reg .b32 %r<4>;\n"
      "mov.u64 %rd1, depot; cvta.local.u64 %rd2, %rd1; mov.u32 %r1, %tid.x; "
      "ld.param.u32 %r2, [v]; st.local.u32 [%rd1], %r1; st.local.u32 [%rd1+4], %r2;\n"
      "mov.u64 %rd3, format; cvta.global.u64 %rd4, %rd3;\n"
      "{ .param .b64 p0; st.param.b64 [p0], %rd4; .param .b64 p1; st.param.b64 [p1], %rd2; "
      ".param .b32 ret; call.uni (ret), vprintf, (p0, p1); ld.param.b32 %r3, [ret]; }\nret;\n}\n";
  CUmodule m;
  CUfunction f;
  CUstream s;
  unsigned v = 7;
  void* params[] = {&v};
  OK(cuModuleLoadData(&m, text));
  OK(cuModuleGetFunction(&f, m, "print"));
  OK(cuLaunchKernel(f, 1, 1, 1, 2, 1, 1, 0, 0, params, 0));
  OK(cuCtxSynchronize());
  printf("waited\n");
  fflush(stdout);
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  v = 8;
  OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, params, 0));
  OK(cuStreamSynchronize(s));
  report(1, "");
}

static const struct {
  const char* name;
  void (*run)(void);
} traps[] = {{"late_read", late_read},
             {"polled_download", polled_download},
             {"download_before_event", download_before_event},
             {"parked_stream", parked_stream},
             {"per_thread_default_stream", per_thread_default_stream},
             {"large_parameters", large_parameters},
             {"forked_child", forked_child},
             {"exit_order", exit_order},
             {"exit_during_calls", exit_during_calls},
             {"unmapped_target", unmapped_target},
             {"hole_in_order", hole_in_order},
             {"kernel_prints", kernel_prints}};

int main(int n, char** v) {
  create_context();
  for (unsigned i = 0; i < sizeof traps / sizeof traps[0]; ++i)
    if (n > 1 && !strcmp(traps[i].name, v[1])) {
      trap = v[1];
      traps[i].run();
      return 0;
    }
  return 2;
}
