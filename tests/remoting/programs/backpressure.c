/* More calls than any queue or pool of the session holds: backpressure NAME COUNT. Prints
 * "NAME: passed", or the first wrong result. `backpressure mix SECONDS` runs the cases at the same
 * time. It prints the longest time between two completions, and between two of one more stream,
 * which waits for each copy. */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>
#include "check.h"

enum { BYTES = 64, SLOTS = 1024 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static pthread_mutex_t completion_lock = PTHREAD_MUTEX_INITIALIZER;
static double last_completion, longest_pause; /* of all threads */

/* Notes that the GPU has completed work of this thread. */
static void complete(void) {
  pthread_mutex_lock(&completion_lock);
  double t = now();
  if (t - last_completion > longest_pause) longest_pause = t - last_completion;
  last_completion = t;
  pthread_mutex_unlock(&completion_lock);
}

#define WAIT(call) \
  do {             \
    OK(call);      \
    complete();    \
  } while (0)

/* Fills 64 bytes with a pattern of copy `i`. */
static void fill(unsigned* p, unsigned i) {
  for (unsigned k = 0; k < BYTES / 4; ++k) p[k] = i * 2654435761u + k;
}

/* Returns 1 if slot `s` holds the pattern of the last of `count` copies that went to it. */
static int holds_last(const unsigned* slots, unsigned s, unsigned count) {
  unsigned expected[BYTES / 4], last = (count - 1 - s) / SLOTS * SLOTS + s;
  fill(expected, last);
  return !memcmp(slots + s * (BYTES / 4), expected, BYTES);
}

static void check_slots(const unsigned* slots, unsigned count) {
  for (unsigned s = 0; s < SLOTS && s < count; ++s)
    if (!holds_last(slots, s, count)) {
      printf("slot %u is wrong\n", s);
      exit(1);
    }
}

static void copies_in(unsigned count) {
  CUstream stream;
  CUdeviceptr p;
  unsigned source[BYTES / 4], *slots = malloc(SLOTS * BYTES);
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&p, SLOTS * BYTES));
  for (unsigned i = 0; i < count; ++i) {
    fill(source, i);
    OK(cuMemcpyHtoDAsync(p + i % SLOTS * BYTES, source, BYTES, stream));
  }
  WAIT(cuStreamSynchronize(stream));
  OK(cuMemcpyDtoH(slots, p, SLOTS * BYTES));
  check_slots(slots, count);
}

/* A stream that waits for a value holds back only itself: another stream writes the value. */
static void blocked_stream(unsigned count) {
  CUstream blocked, other;
  CUdeviceptr p, flag;
  unsigned source[BYTES / 4], back[BYTES / 4], *slots = malloc(SLOTS * BYTES);
  OK(cuStreamCreate(&blocked, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&p, SLOTS * BYTES));
  OK(cuMemAlloc(&flag, BYTES));
  OK(cuMemsetD8(flag, 0, BYTES));
  WAIT(cuCtxSynchronize());
  OK(cuStreamWaitValue32(blocked, flag, 7, CU_STREAM_WAIT_VALUE_EQ));
  for (unsigned i = 0; i < count; ++i) {
    fill(source, i);
    OK(cuMemcpyHtoDAsync(p + i % SLOTS * BYTES, source, BYTES, blocked));
  }
  fill(source, 1);
  source[0] = 7;
  OK(cuMemcpyHtoDAsync(flag + 4, source + 1, BYTES - 4, other));
  OK(cuMemcpyDtoHAsync(back, flag, BYTES, other));
  if (memcmp(back + 1, source + 1, BYTES - 4) || cuStreamQuery(blocked) != CUDA_ERROR_NOT_READY) {
    printf("the other stream is wrong\n");
    exit(1);
  }
  OK(cuStreamWriteValue32(other, flag, 7, 0));
  WAIT(cuStreamSynchronize(blocked));
  OK(cuMemcpyDtoH(slots, p, SLOTS * BYTES));
  check_slots(slots, count);
}

/* Copies in both directions, on a stream each, without a synchronise. */
static void both_ways(unsigned count) {
  CUstream in, out;
  CUdeviceptr p, q;
  unsigned source[BYTES / 4], *slots = malloc(SLOTS * BYTES), *back;
  OK(cuMemHostAlloc((void**)&back, SLOTS * BYTES, 0));
  OK(cuStreamCreate(&in, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&out, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&p, SLOTS * BYTES));
  OK(cuMemAlloc(&q, SLOTS * BYTES));
  for (unsigned i = 0; i < SLOTS; ++i) fill(slots + i * (BYTES / 4), i);
  OK(cuMemcpyHtoD(q, slots, SLOTS * BYTES));
  for (unsigned i = 0; i < count; ++i) {
    fill(source, i);
    OK(cuMemcpyHtoDAsync(p + i % SLOTS * BYTES, source, BYTES, in));
    OK(cuMemcpyDtoHAsync(back + i % SLOTS * (BYTES / 4), q + i % SLOTS * BYTES, BYTES, out));
  }
  WAIT(cuStreamSynchronize(in));
  WAIT(cuStreamSynchronize(out));
  check_slots(back, count < SLOTS ? count : SLOTS);
  OK(cuMemcpyDtoH(slots, p, SLOTS * BYTES));
  check_slots(slots, count);
  OK(cuMemFree(p));
  OK(cuMemFree(q));
  OK(cuMemFreeHost(back));
  OK(cuStreamDestroy(in));
  OK(cuStreamDestroy(out));
  free(slots);
}

/* Events that are recorded and not complete, because their stream waits for a value. */
static void events(unsigned count) {
  CUstream blocked, waiting;
  CUdeviceptr flag;
  CUevent* e = malloc(count * sizeof *e);
  OK(cuMemAlloc(&flag, BYTES));
  OK(cuMemsetD8(flag, 0, BYTES));
  OK(cuStreamCreate(&blocked, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
  WAIT(cuCtxSynchronize());
  OK(cuStreamWaitValue32(blocked, flag, 7, CU_STREAM_WAIT_VALUE_EQ));
  for (unsigned i = 0; i < count; ++i) {
    OK(cuEventCreate(&e[i], CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(e[i], blocked));
    if (i % 64 == 0) OK(cuStreamWaitEvent(waiting, e[i], 0));
  }
  if (cuEventQuery(e[count - 1]) != CUDA_ERROR_NOT_READY) {
    printf("the last event is complete\n");
    exit(1);
  }
  OK(cuMemsetD32(flag, 7, 1));
  WAIT(cuStreamSynchronize(waiting));
  WAIT(cuEventSynchronize(e[count - 1]));
  for (unsigned i = 0; i < count; ++i) OK(cuEventDestroy(e[i]));
  OK(cuMemFree(flag));
  OK(cuStreamDestroy(blocked));
  OK(cuStreamDestroy(waiting));
  free(e);
}

/* Many streams with a copy in and a copy out each. */
static void streams(unsigned count) {
  CUstream* s = malloc(count * sizeof *s);
  CUdeviceptr p;
  unsigned source[BYTES / 4], *back;
  OK(cuMemHostAlloc((void**)&back, (size_t)count * BYTES, 0));
  OK(cuMemAlloc(&p, (size_t)count * BYTES));
  for (unsigned i = 0; i < count; ++i) {
    OK(cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
    fill(source, i);
    OK(cuMemcpyHtoDAsync(p + (size_t)i * BYTES, source, BYTES, s[i]));
    OK(cuMemcpyDtoHAsync(back + (size_t)i * (BYTES / 4), p + (size_t)i * BYTES, BYTES, s[i]));
  }
  for (unsigned i = 0; i < count; ++i) {
    WAIT(cuStreamSynchronize(s[i]));
    fill(source, i);
    if (memcmp(back + (size_t)i * (BYTES / 4), source, BYTES)) {
      printf("stream %u is wrong\n", i);
      exit(1);
    }
    OK(cuStreamDestroy(s[i]));
  }
  OK(cuMemFree(p));
  OK(cuMemFreeHost(back));
  free(s);
}

static sem_t called, gate;

static void CUDA_CB wait_at_gate(void* unused) {
  (void)unused;
  sem_post(&called);
  while (sem_wait(&gate)) {
  }
}

static void* copy_then_open_gate(void* context_of_thread) {
  CUstream other;
  CUdeviceptr p;
  static char large[2 << 20], back[2 << 20];
  memset(large, 9, sizeof large);
  OK(cuCtxSetCurrent((CUcontext)context_of_thread));
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&p, sizeof large));
  for (int i = 0; i < 50; ++i) {
    OK(cuMemcpyHtoDAsync(p, large, sizeof large, other));
    OK(cuMemcpyDtoHAsync(back, p, sizeof back, other));
    WAIT(cuStreamSynchronize(other));
  }
  if (memcmp(large, back, sizeof back)) {
    printf("the other stream is wrong\n");
    exit(1);
  }
  sem_post(&gate);
  OK(cuMemFree(p));
  OK(cuStreamDestroy(other));
  return 0;
}

/* Small copies, large copies and events behind a host function use up every pool, while a thread
 * copies on another stream before it lets the function end. */
static void all_pools(unsigned count) {
  enum { LARGE = 1 << 20 };
  CUstream blocked;
  CUdeviceptr p, q;
  CUevent e;
  pthread_t thread;
  unsigned source[BYTES / 4], *slots = malloc(SLOTS * BYTES);
  char* large;
  sem_init(&called, 0, 0);
  sem_init(&gate, 0, 0);
  OK(cuMemHostAlloc((void**)&large, LARGE, 0));
  OK(cuMemAlloc(&p, SLOTS * BYTES));
  OK(cuMemAlloc(&q, LARGE));
  OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
  OK(cuStreamCreate(&blocked, CU_STREAM_NON_BLOCKING));
  OK(cuLaunchHostFunc(blocked, wait_at_gate, 0));
  while (sem_wait(&called)) {
  }
  pthread_create(&thread, 0, copy_then_open_gate, context);
  for (unsigned i = 0; i < count; ++i) {
    fill(source, i);
    OK(cuMemcpyHtoDAsync(p + i % SLOTS * BYTES, source, BYTES, blocked));
    OK(cuEventRecord(e, blocked));
    if (i % 1024 == 0) OK(cuMemcpyDtoHAsync(large, q, LARGE, blocked));
  }
  WAIT(cuStreamSynchronize(blocked));
  pthread_join(thread, 0);
  OK(cuMemcpyDtoH(slots, p, SLOTS * BYTES));
  check_slots(slots, count);
  OK(cuMemFree(p));
  OK(cuMemFree(q));
  OK(cuMemFreeHost(large));
  OK(cuEventDestroy(e));
  OK(cuStreamDestroy(blocked));
  free(slots);
}

/* Stops itself behind many copies out, whose data nothing reads then. */
static sem_t all_submitted;

static void CUDA_CB await_submission(void* unused) {
  (void)unused;
  while (sem_wait(&all_submitted)) {
  }
}

/* Stops when the first of many copies has arrived: the others are still to come. */
static void reads_later(unsigned count) {
  enum { PIECE = 64 << 10 };
  CUstream stream;
  CUdeviceptr p;
  unsigned char* back;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&p, PIECE));
  OK(cuMemsetD8(p, 9, PIECE));
  OK(cuMemHostAlloc((void**)&back, PIECE, 0));
  memset(back, 0, PIECE);
  WAIT(cuCtxSynchronize());
  sem_init(&all_submitted, 0, 0);
  OK(cuLaunchHostFunc(stream, await_submission, 0));
  for (unsigned i = 0; i < count; ++i) OK(cuMemcpyDtoHAsync(back, p, PIECE, stream));
  sem_post(&all_submitted);
  while (!*(volatile unsigned char*)back) (void)!cuStreamQuery(stream);
  raise(SIGSTOP);
  WAIT(cuStreamSynchronize(stream));
  if (back[0] != 9 || back[PIECE - 1] != 9) {
    printf("the copies are wrong\n");
    exit(1);
  }
}

static double end;

struct part {
  void (*run)(unsigned count);
  unsigned count;
};

static void* repeat(void* of) {
  struct part* part = of;
  OK(cuCtxSetCurrent(context));
  while (now() < end) part->run(part->count);
  return 0;
}

static void mix(unsigned seconds) {
  /* Few between two waits: the completions of 5,000 copies are seen only after the last one. */
  static struct part parts[] = {
      {both_ways, 1000}, {events, 1000}, {streams, 100}, {all_pools, 5000}};
  enum { PARTS = sizeof parts / sizeof parts[0] };
  pthread_t threads[PARTS];
  CUstream stream;
  CUdeviceptr p;
  unsigned copies = 0, data[BYTES / 4], *back;
  double last = now(), longest = 0;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&p, BYTES));
  OK(cuMemHostAlloc((void**)&back, BYTES, 0));
  end = last + seconds;
  last_completion = last;
  longest_pause = 0;
  fprintf(stderr, "mix: begun\n");
  for (int i = 0; i < PARTS; ++i) pthread_create(&threads[i], 0, repeat, &parts[i]);
  for (; last < end; ++copies) {
    fill(data, copies);
    OK(cuMemcpyHtoDAsync(p, data, BYTES, stream));
    OK(cuMemcpyDtoHAsync(back, p, BYTES, stream));
    WAIT(cuStreamSynchronize(stream));
    if (memcmp(back, data, BYTES)) {
      printf("copy %u is wrong\n", copies);
      exit(1);
    }
    double gap = now() - last;
    last += gap;
    if (gap > longest) longest = gap;
  }
  for (int i = 0; i < PARTS; ++i) pthread_join(threads[i], 0);
  printf("mix: passed, %u copies, longest gap %.2f s, longest round trip %.2f s\n", copies,
         longest_pause, longest);
}

int main(int n, char** v) {
  static const struct {
    const char* name;
    void (*run)(unsigned count);
  } all[] = {{"copies_in", copies_in},    {"blocked_stream", blocked_stream},
             {"both_ways", both_ways},    {"events", events},
             {"streams", streams},        {"all_pools", all_pools},
             {"reads_later", reads_later}};
  unsigned count = n > 2 ? (unsigned)atoi(v[2]) : 1000;
  double begin = now();
  create_context();
  if (n > 1 && !strcmp(v[1], "mix")) {
    mix(count);
    return 0;
  }
  for (unsigned i = 0; n > 1 && i < sizeof all / sizeof all[0]; ++i)
    if (!strcmp(v[1], all[i].name)) {
      all[i].run(count);
      printf("%s: passed\n", v[1]);
      fprintf(stderr, "%.2f s\n", now() - begin);
      return 0;
    }
  printf("usage: backpressure NAME COUNT\n");
  return 2;
}
