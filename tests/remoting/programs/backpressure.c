/* More calls than any queue or pool of the session holds: backpressure NAME COUNT. Prints
 * "NAME: passed", or the first wrong result. */
#include <time.h>
#include "check.h"

enum { BYTES = 64, SLOTS = 1024 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

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
  OK(cuStreamSynchronize(stream));
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
  OK(cuCtxSynchronize());
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
  OK(cuStreamSynchronize(blocked));
  OK(cuMemcpyDtoH(slots, p, SLOTS * BYTES));
  check_slots(slots, count);
}

int main(int n, char** v) {
  static const struct {
    const char* name;
    void (*run)(unsigned count);
  } all[] = {{"copies_in", copies_in}, {"blocked_stream", blocked_stream}};
  unsigned count = n > 2 ? (unsigned)atoi(v[2]) : 1000;
  double begin = now();
  create_context();
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
