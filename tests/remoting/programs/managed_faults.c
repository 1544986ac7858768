/* Managed memory in programs that use signals. usage: managed_faults SCENARIO; prints ok or why
 * not.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

enum { BYTES = 4 << 20, THREADS = 8, PAGE = 4096 };
static CUdeviceptr device;
static volatile unsigned char* managed;

static void require(int condition, const char* what) {
  if (condition) return;
  printf("WRONG: %s\n", what);
  fflush(stdout);
  _exit(1);
}

static void gpu_writes(int value) {
  OK(cuMemsetD8(device, (unsigned char)value, BYTES));
  OK(cuCtxSynchronize());
}

static void allocate(void) {
  create_context();
  OK(cuMemAllocManaged(&device, BYTES, CU_MEM_ATTACH_GLOBAL));
  managed = (volatile unsigned char*)device;
}

static void gpu_reads(size_t at, int value) {
  unsigned char seen = 0;
  OK(cuMemcpyDtoH(&seen, device + at, 1));
  require(seen == value, "the GPU does not see what the program has written");
}

/* Reads what the GPU has written, writes, and lets the GPU read. */
static void use_managed(void) {
  require(managed[0] == 0x5a && managed[BYTES - 1] == 0x5a, "the program reads something else");
  managed[BYTES / 2] = 7;
  gpu_reads(BYTES / 2, 7);
  require(managed[BYTES / 2] == 7 && managed[BYTES / 2 + 1] == 0x5a, "content was lost");
}

/* ---- signals ---- */
static sigjmp_buf after_fault;
static void* volatile faulted;
static volatile int handled;
static void record_fault(int number, siginfo_t* info, void* context) {
  (void)number, (void)context;
  faulted = info->si_addr;
  handled++;
  siglongjmp(after_fault, 1);
}
static void install(int flags) {
  struct sigaction a = {0};
  a.sa_sigaction = record_fault;
  a.sa_flags = SA_SIGINFO | flags;
  sigaction(SIGSEGV, &a, NULL);
}

static void own_fault_is_handled(void) {
  char* page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 1; i <= 2; ++i) {
    handled = 0, faulted = NULL;
    if (!sigsetjmp(after_fault, 1)) *(volatile char*)(page + 9) = 1;
    require(handled == 1 && faulted == page + 9, "the program's handler does not get its fault");
  }
  munmap(page, PAGE);
}

static void block_all(void) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
}

static void* use_blocked(void* unused) {
  block_all();
  OK(cuCtxSetCurrent(context));
  require(managed[BYTES / 4] == 0x5a, "a thread that blocks signals reads something else");
  use_managed();
  return unused;
}
static void blocked_thread(void) {
  pthread_t t;
  allocate();
  gpu_writes(0x5a);
  pthread_create(&t, NULL, use_blocked, NULL);
  pthread_join(t, NULL);
}

static void* launch_blocked(void* unused) {
  block_all();
  OK(cuCtxSetCurrent(context));
  gpu_writes(0x5a);
  use_managed();
  return unused;
}
static void blocked_thread_that_launches(void) {
  pthread_t t;
  allocate();
  pthread_create(&t, NULL, launch_blocked, NULL);
  pthread_join(t, NULL);
}

static void handler_installed_last(void) {
  allocate();
  gpu_writes(0x5a);
  install(0);
  use_managed();
  require(!handled, "the program's handler got a fault of managed memory");
  own_fault_is_handled();
}

static void handler_installed_before_launch(void) {
  allocate();
  for (int i = 0; i < 20; ++i) { /* more often than the client installs its own */
    struct sigaction before;
    sigaction(SIGSEGV, NULL, &before);
    install(SA_ONSTACK);
    gpu_writes(0x5a);
    require(managed[i] == 0x5a && !handled, "the program's handler got a fault");
    own_fault_is_handled();
    handled = 0;
    sigaction(SIGSEGV, &before, NULL);
  }
  gpu_writes(0x5a);
  use_managed();
}

static void handler_installed_first(void) {
  install(0);
  allocate();
  gpu_writes(0x5a);
  use_managed();
  own_fault_is_handled();
  gpu_writes(0x5a);
  use_managed();
}

/* An access that waits for the GPU must not hold up the faults of other threads. */
static sem_t own_faults_done;
static pthread_barrier_t reads;
static void wait_for_own_faults(void* unused) {
  (void)unused;
  sem_wait(&own_faults_done);
}
static void* read_while_gpu_works(void* unused) {
  pthread_barrier_wait(&reads);
  require(managed[0] == 0x5a, "the program reads something else");
  return unused;
}
static void own_fault_while_gpu_works(void) {
  pthread_t t;
  sem_init(&own_faults_done, 0, 0);
  pthread_barrier_init(&reads, NULL, 2);
  install(0);
  allocate();
  gpu_writes(0x5a);
  OK(cuLaunchHostFunc(NULL, wait_for_own_faults, NULL));
  pthread_create(&t, NULL, read_while_gpu_works, NULL);
  pthread_barrier_wait(&reads);
  for (int i = 0; i < 1000; ++i) { /* some of them while the other thread waits */
    own_fault_is_handled();
    sched_yield();
  }
  sem_post(&own_faults_done);
  pthread_join(t, NULL);
  use_managed();
}

static void default_action_last(void) {
  allocate();
  gpu_writes(0x5a);
  signal(SIGSEGV, SIG_DFL);
  use_managed();
}

static void own_fault_with_default_action(void) {
  allocate();
  gpu_writes(0x5a);
  use_managed();
  puts("ok");
  fflush(stdout);
  *(volatile char*)16 = 1;
}
static void raised_with_default_action(void) {
  allocate();
  gpu_writes(0x5a);
  use_managed();
  puts("ok");
  fflush(stdout);
  raise(SIGSEGV);
  require(0, "the signal did not end the program");
}

/* A handler of the client has only as much stack as the program's own needs. */
static void small_signal_stack(void) {
  size_t bytes = ((size_t)sysconf(_SC_MINSIGSTKSZ) + 2 * PAGE) & ~(size_t)(PAGE - 1);
  char* stack = mmap(NULL, bytes + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(stack + PAGE, bytes, PROT_READ | PROT_WRITE);
  stack_t s = {.ss_sp = stack + PAGE, .ss_size = bytes};
  require(sigaltstack(&s, NULL) == 0, "sigaltstack");
  allocate();
  gpu_writes(0x5a);
  use_managed();
}

/* ---- threads and processes ---- */
static pthread_barrier_t barrier;
static void* use_at_once(void* number) {
  size_t t = (size_t)number;
  unsigned wrong = 0;
  pthread_barrier_wait(&barrier);
  for (size_t i = 0; i < BYTES; ++i) wrong += managed[(i + t * BYTES / THREADS) % BYTES] != 0x5a;
  require(!wrong, "a thread reads something else");
  pthread_barrier_wait(&barrier);
  for (size_t i = t; i < BYTES; i += THREADS) managed[i] = (unsigned char)(t + 1);
  return NULL;
}
static void threads_at_once(void) {
  static unsigned char seen[BYTES];
  pthread_t threads[THREADS];
  allocate();
  for (int round = 0; round < 3; ++round) {
    gpu_writes(0x5a);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (size_t t = 0; t < THREADS; ++t) pthread_create(&threads[t], NULL, use_at_once, (void*)t);
    for (size_t t = 0; t < THREADS; ++t) pthread_join(threads[t], NULL);
    OK(cuMemcpyDtoH(seen, device, BYTES));
    for (size_t i = 0; i < BYTES; ++i) require(seen[i] == i % THREADS + 1, "a write was lost");
  }
}

/* As with NVIDIA's driver, a child has no managed memory: it ends by SIGSEGV. */
static void forked_child(void) {
  allocate();
  managed[0] = 1;
  for (int by_gpu = 0; by_gpu < 2; ++by_gpu) {
    if (by_gpu) gpu_writes(0x5a);
    pid_t child = fork();
    if (!child) _exit(managed[by_gpu]);
    int status = 0;
    waitpid(child, &status, 0);
    require(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "the child read managed memory");
  }
  use_managed();
}

static void system_call(void) {
  int ends[2];
  allocate();
  gpu_writes(0x5a);
  require(pipe(ends) == 0, "pipe");
  require(write(ends[1], (const void*)device, 1) < 0 && errno == EFAULT, "write did not fail");
  require(managed[0] == 0x5a, "the program reads something else");
  require(write(ends[1], (const void*)device, 1) == 1, "write failed on memory of the program");
}

static void locked_pages(void) {
  allocate();
  (void)!mlock((void*)device, BYTES);
  memset((void*)device, 3, BYTES);
  gpu_reads(BYTES - 1, 3);
  gpu_writes(0x5a);
  use_managed();
}

static void lost_context(void) {
  allocate();
  gpu_writes(0x5a);
  CUdeviceptr nowhere = 16;
  void* params[] = {&nowhere};
  OK(cuLaunchKernel(wild, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
  require(cuCtxSynchronize() != CUDA_SUCCESS, "the kernel did not fail");
  install(0);
  if (!sigsetjmp(after_fault, 1)) (void)managed[8];
  require(handled == 1, "the program read memory that cannot be fetched");
}

static const struct {
  const char* name;
  void (*run)(void);
} scenarios[] = {
#define SCENARIO(name) {#name, name}
    SCENARIO(blocked_thread),
    SCENARIO(blocked_thread_that_launches),
    SCENARIO(handler_installed_last),
    SCENARIO(handler_installed_before_launch),
    SCENARIO(handler_installed_first),
    SCENARIO(own_fault_while_gpu_works),
    SCENARIO(default_action_last),
    SCENARIO(own_fault_with_default_action),
    SCENARIO(raised_with_default_action),
    SCENARIO(small_signal_stack),
    SCENARIO(threads_at_once),
    SCENARIO(forked_child),
    SCENARIO(system_call),
    SCENARIO(locked_pages),
    SCENARIO(lost_context),
};

int main(int argc, char** argv) {
  for (size_t i = 0; argc == 2 && i < sizeof scenarios / sizeof *scenarios; ++i)
    if (!strcmp(argv[1], scenarios[i].name)) {
      scenarios[i].run();
      puts("ok");
      return 0;
    }
  return 2;
}
