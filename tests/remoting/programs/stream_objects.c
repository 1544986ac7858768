/* The functions by which cuBLAS and cuSOLVER identify streams: slots of a private table. */
#include <stdint.h>

#include "check.h"

static const unsigned char kToolsContext[16] = {0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48,
                                                0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8, 0xf2};
typedef CUresult (*StreamObject)(CUcontext, CUstream, void**, int);
typedef CUresult (*StreamNumber)(CUcontext, void*, uint64_t*);
static StreamObject stream_object;
static StreamNumber stream_number;

static uint64_t number_of(CUstream s, int per_thread) {
  void* object = 0;
  uint64_t number = 0;
  OK(stream_object(context, s, &object, per_thread));
  OK(stream_number(context, object, &number));
  return number;
}

int main(void) {
  const void* table = 0;
  CUuuid id;
  CUstream a, b;
  void* object;
  create_context();
  memcpy(id.bytes, kToolsContext, sizeof id.bytes);
  OK(cuGetExportTable(&table, &id));
  stream_object = ((StreamObject const*)table)[51];
  stream_number = ((StreamNumber const*)table)[39];
  OK(cuStreamCreate(&a, 0));
  OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
  printf("stream 0 is the legacy stream: %d\n", number_of(0, 0) == number_of(CU_STREAM_LEGACY, 0));
  printf("stream 0 is the thread's own stream: %d\n",
         number_of(0, 1) == number_of(CU_STREAM_PER_THREAD, 0));
  printf("streams differ: %d %d %d\n", number_of(a, 0) != number_of(b, 0),
         number_of(a, 0) != number_of(0, 0), number_of(0, 0) != number_of(0, 1));
  printf("the same again: %d\n", number_of(a, 0) == number_of(a, 1));
  printf("no result -> %d\n", (int)stream_object(context, a, 0, 0));
  OK(cuStreamDestroy(a));
  printf("destroyed -> %d\n", (int)stream_object(context, a, &object, 0));
  printf("no context -> %d\n", (int)stream_object((CUcontext)0x55, b, &object, 0));
  return 0;
}
