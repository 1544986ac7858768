/* Two threads let the library write the same variable: a race that ThreadSanitizer must report. */
#include <pthread.h>

#include "check.h"

static void* count_devices(void* count) {
  OK(cuDeviceGetCount(count));
  return 0;
}

int main(void) {
  pthread_t t[2];
  int count;
  OK(cuInit(0));
  for (int i = 0; i < 2; ++i) pthread_create(&t[i], 0, count_devices, &count);
  for (int i = 0; i < 2; ++i) pthread_join(t[i], 0);
  return 0;
}
