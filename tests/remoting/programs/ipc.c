/* Memory and events of another process: the parent shares them with a child, which has a session of
 * its own. Each process says over a pipe how far it is. */
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define N 4096
#define BYTES (6 << 20)
#define ROUNDS 30000
#define RECORDS 2000 /* more than a page of the session server has slots */
static int to_child[2], to_parent[2];

struct Handles {
  CUipcMemHandle memory, inner;
  CUipcEventHandle event, never;
};

static void say(int fd, const void* data, size_t bytes) {
  if (write(fd, data, bytes) != (ssize_t)bytes) exit(2);
}
static void hear(int fd, void* data, size_t bytes) {
  for (size_t got = 0; got < bytes;) {
    ssize_t n = read(fd, (char*)data + got, bytes - got);
    if (n <= 0) exit(3);
    got += (size_t)n;
  }
}
static void step(int fd) {
  char c = 1;
  fflush(stdout);
  say(fd, &c, 1);
}
static void wait_for_step(int fd) {
  char c;
  hear(fd, &c, 1);
}

static void show_sum(const char* who, CUdeviceptr p, CUstream s, unsigned long long expected) {
  static unsigned values[N];
  unsigned long long sum = 0;
  OK(cuMemcpyDtoHAsync(values, p, sizeof values, s));
  OK(cuStreamSynchronize(s));
  for (int i = 0; i < N; ++i) sum += values[i];
  printf("%s: sum %llu%s\n", who, sum, sum == expected ? "" : " WRONG");
}

static void open_errors(const struct Handles* h) {
  CUevent e;
  CUdeviceptr p;
  CUipcEventHandle zero = {{0}};
  CUipcMemHandle as_memory;
  memcpy(&as_memory, &h->event, sizeof as_memory);
  SHOW(cuIpcOpenEventHandle(0, h->event));
  SHOW(cuIpcOpenEventHandle(&e, zero));
  SHOW(cuIpcOpenMemHandle(&p, as_memory, 1));
  SHOW(cuIpcOpenMemHandle(0, h->memory, 1));
  SHOW(cuIpcCloseMemHandle(0));
}

/* The child waits for slow work of the parent, adds to it, and records for the parent. */
static void child(void) {
  struct Handles h;
  CUdeviceptr p, again;
  CUevent event, never;
  CUstream s;
  create_context();
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  hear(to_child[0], &h, sizeof h);
  open_errors(&h);
  OK(cuIpcOpenMemHandle(&p, h.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  OK(cuIpcOpenMemHandle(&again, h.memory, 7)); /* unknown flags are ignored */
  printf("opened again at the same address: %d\n", again == p);
  show_sum("child at the last bytes", p + BYTES - N * 4, 0, 7ull * N);
  OK(cuIpcOpenEventHandle(&event, h.event));
  OK(cuIpcOpenEventHandle(&never, h.never));
  SHOW(cuEventQuery(never)); /* never recorded */
  OK(cuStreamWaitEvent(s, never, 0));
  OK(cuEventSynchronize(never));
  OK(cuStreamWaitEvent(s, event, 0));
  show_sum("child after the parent", p, s, 3ull * ROUNDS * N);
  SHOW(cuEventQuery(event));
  OK(launch_bump(p, N, 5, ROUNDS, s));
  OK(cuEventRecord(event, s));
  float ms;
  SHOW(cuEventElapsedTime(&ms, event, event));
  step(to_parent[1]);
  wait_for_step(to_child[0]);
  OK(cuEventSynchronize(event)); /* recorded by the parent again */
  show_sum("child at the end", p, s, 8ull * ROUNDS * N + RECORDS);
  OK(cuEventDestroy(event));
  OK(cuEventDestroy(never));
  OK(cuIpcCloseMemHandle(p));
  SHOW(cuIpcCloseMemHandle(p));
  SHOW(cuIpcCloseMemHandle(p));
  step(to_parent[1]);
}

static void handle_errors(CUevent shared, CUdeviceptr p) {
  CUevent plain, e;
  CUipcEventHandle h;
  CUipcMemHandle m;
  CUdeviceptr q;
  OK(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
  SHOW(cuEventCreate(&e, CU_EVENT_INTERPROCESS));
  SHOW(cuIpcGetEventHandle(&h, plain));
  SHOW(cuIpcGetEventHandle(&h, 0));
  SHOW(cuIpcGetEventHandle(0, shared));
  OK(cuIpcGetEventHandle(&h, shared));
  SHOW(cuIpcOpenEventHandle(&e, h)); /* of this process */
  SHOW(cuIpcGetMemHandle(0, p));
  SHOW(cuIpcGetMemHandle(&m, 4096));
  OK(cuIpcGetMemHandle(&m, p));
  SHOW(cuIpcOpenMemHandle(&q, m, 1));
  OK(cuEventDestroy(plain));
}

static void parent(void) {
  struct Handles h;
  CUdeviceptr before[2], p;
  CUevent event, never;
  CUstream s;
  create_context();
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&before[0], 16 << 20));
  OK(cuMemAlloc(&before[1], 12 << 20));
  OK(cuMemAlloc(&p, BYTES)); /* begins in the lease of the last one, and ends in another */
  OK(cuMemsetD8(p, 0, BYTES));
  OK(cuMemsetD32(p + BYTES - N * 4, 7, N));
  OK(cuCtxSynchronize());
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
  OK(cuEventCreate(&never, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
  handle_errors(event, p);
  OK(cuIpcGetMemHandle(&h.memory, p));
  OK(cuIpcGetEventHandle(&h.event, event));
  OK(cuIpcGetEventHandle(&h.never, never));
  OK(launch_bump(p, N, 3, ROUNDS, s));
  OK(cuEventRecord(event, s));
  fflush(stdout);
  say(to_child[1], &h, sizeof h);
  wait_for_step(to_parent[0]);
  OK(cuStreamWaitEvent(s, event, 0)); /* recorded by the child */
  show_sum("parent after the child", p, s, 8ull * ROUNDS * N);
  OK(cuEventSynchronize(event));
  SHOW(cuEventQuery(event));
  for (int i = 0; i < RECORDS; ++i) {
    OK(launch_bump(p, 1, 1, 1, s));
    OK(cuEventRecord(event, s));
  }
  step(to_child[1]);
  wait_for_step(to_parent[0]);
  show_sum("parent at the end", p, s, 8ull * ROUNDS * N + RECORDS);
  OK(cuEventDestroy(event));
  OK(cuEventDestroy(never));
}

int main(void) {
  int status = 0;
  if (pipe(to_child) || pipe(to_parent)) return 1;
  pid_t pid = fork();
  if (!pid) {
    close(to_child[1]);
    child();
    return 0;
  }
  close(to_parent[1]);
  parent();
  waitpid(pid, &status, 0);
  printf("status of the child: %d\n", status);
  return 0;
}
