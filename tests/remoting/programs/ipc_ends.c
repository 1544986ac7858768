/* A stream waits for an event of another process, which is killed before its GPU gets there. Both
 * directions: the process that made the event is killed, and one that opened it. */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static int to_child[2], to_parent[2];

static void say(int fd, const void* data, size_t bytes) {
  if (write(fd, data, bytes) != (ssize_t)bytes) exit(2);
}
static void hear(int fd, void* data, size_t bytes) {
  if (read(fd, data, bytes) != (ssize_t)bytes) exit(3);
}

static CUevent make_event(void) {
  CUevent e;
  OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
  return e;
}

/* Records an event behind work that never ends: nothing writes the word. */
static void record_behind_endless_work(CUevent e) {
  CUstream s;
  CUdeviceptr word;
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&word, 4));
  OK(cuMemsetD32Async(word, 0, 1, s));
  OK(cuStreamWaitValue32(s, word, 1, CU_STREAM_WAIT_VALUE_GEQ)); /* for ever */
  OK(cuEventRecord(e, s));
  OK(cuEventRecord(e, s));
}

/* Makes an event, and opens that of the parent. Records both. Is killed. */
static void child(void) {
  CUipcEventHandle own, other;
  CUevent e;
  create_context();
  hear(to_child[0], &other, sizeof other);
  OK(cuIpcOpenEventHandle(&e, other));
  record_behind_endless_work(e);
  e = make_event();
  OK(cuIpcGetEventHandle(&own, e));
  record_behind_endless_work(e);
  say(to_parent[1], &own, sizeof own);
  for (;;) pause();
}

static void wait_in_stream(const char* whose, CUevent e, CUdeviceptr p) {
  CUstream s;
  unsigned value = 0;
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuStreamWaitEvent(s, e, 0));
  OK(cuMemsetD32Async(p, 77, 1, s));
  SHOW(cuStreamSynchronize(s));
  OK(cuMemcpyDtoH(&value, p, sizeof value));
  printf("behind the event of the %s: %u\n", whose, value);
  SHOW(cuEventSynchronize(e));
  SHOW(cuEventQuery(e));
  OK(cuEventRecord(e, s)); /* it is of use again */
  OK(cuStreamWaitEvent(s, e, 0));
  SHOW(cuStreamSynchronize(s));
  OK(cuStreamDestroy(s));
}

static void parent(pid_t pid) {
  CUipcEventHandle own, other;
  CUevent e = 0, opened = 0;
  CUdeviceptr p;
  create_context();
  e = make_event();
  OK(cuIpcGetEventHandle(&own, e));
  OK(cuMemAlloc(&p, 4));
  say(to_child[1], &own, sizeof own);
  hear(to_parent[0], &other, sizeof other);
  OK(cuIpcOpenEventHandle(&opened, other));
  SHOW(cuEventQuery(e));
  SHOW(cuEventQuery(opened));
  time_t before = time(0);
  while (time(0) < before + 5) usleep(10000); /* a process that lives completes its own records */
  SHOW(cuEventQuery(e));
  kill(pid, SIGKILL);
  waitpid(pid, 0, 0);
  wait_in_stream("killed process", opened, p);
  wait_in_stream("process that goes on", e, p);
  OK(cuEventDestroy(opened));
  OK(cuEventDestroy(e));
}

int main(void) {
  if (pipe(to_child) || pipe(to_parent)) return 1;
  pid_t pid = fork();
  if (!pid) {
    child();
    return 0;
  }
  parent(pid);
  return 0;
}
