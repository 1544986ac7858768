/* Runs host functions of two streams side by side, and then those of one stream one after another.
 * Prints how many of the latter ran on another thread than the first of them. */
#include <pthread.h>
#include <stdatomic.h>
#include "check.h"

enum { FUNCTIONS = 32 };
static atomic_int arrived;
static pthread_t threads[FUNCTIONS];
static int noted;

static void meet(void* data) {
  (void)data;
  for (++arrived; arrived < 2;);
}

static void note_thread(void* data) {
  (void)data;
  threads[noted++] = pthread_self();
}

int main(void) {
  CUstream streams[2];
  create_context();
  for (int i = 0; i < 2; ++i) OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < 2; ++i) OK(cuLaunchHostFunc(streams[i], meet, 0));
  OK(cuCtxSynchronize());
  for (int i = 0; i < FUNCTIONS; ++i) {
    OK(cuLaunchHostFunc(streams[0], note_thread, 0));
    OK(cuStreamSynchronize(streams[0]));
  }
  int others = 0;
  for (int i = 1; i < FUNCTIONS; ++i) others += !pthread_equal(threads[i], threads[0]);
  printf("on other threads: %d\n", others);
  return 0;
}
