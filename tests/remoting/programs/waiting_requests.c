/* A request that must wait for a stream, while the stream waits for another thread of the program.
 * That thread first makes a call about the same kind of object. The argument is the request:
 * `library` and `mapped` need the memory that the stream frees; `copied` maps host memory that the
 * stream copies to; `changed` submits work beside the stream, after many words of mapped memory
 * have changed; `reset` ends the context of the stream.
 */
#include <pthread.h>

#include "check.h"

enum { ROUNDS = 500, BYTES = 4 << 20 };

static const char* LARGE_PTX =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .global .align 4 .b8 large[4194304];\n.visible .entry none()\n{\nret;\n}\n";

static CUcontext beside; /* of the other thread */
static CUlibrary library;
static void *known, *fresh; /* pinned memory: with and without a copy on the device */
static CUdeviceptr word;
static CUstream waiting, writing;

/* Needs the mutex of the library, but no memory. */
static void use_library(void) {
  CUkernel kernel;
  OK(cuCtxSetCurrent(0)); /* else the library would be loaded */
  OK(cuLibraryGetKernel(&kernel, library, "none"));
  OK(cuCtxSetCurrent(beside));
}

static void use_mapped(void) {
  CUdeviceptr p;
  OK(cuMemHostGetDevicePointer(&p, known, 0));
}

static void use_primary_context(void) {
  unsigned flags;
  int active;
  OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
}

/* Answers of the node pass while the main thread makes its requests. */
static void* write_word(void* use) {
  size_t free, total;
  OK(cuCtxSetCurrent(beside));
  for (int i = 0; i < ROUNDS; ++i) {
    OK(cuMemGetInfo(&free, &total));
    ((void (*)(void))use)();
  }
  OK(cuStreamWriteValue32(writing, word, 1, 0));
  return 0;
}

static void wait_for_word(void) {
  OK(cuStreamWaitValue32(waiting, word, 1, CU_STREAM_WAIT_VALUE_EQ));
}

/* Takes all memory, and frees it in a stream that waits for the word. */
static void fill(void) {
  CUdeviceptr all;
  size_t free, total;
  OK(cuMemGetInfo(&free, &total));
  OK(cuMemAlloc(&all, free));
  wait_for_word();
  OK(cuMemFreeAsync(all, waiting));
}

static void copy(void) {
  CUdeviceptr from;
  OK(cuMemAlloc(&from, BYTES));
  wait_for_word();
  OK(cuMemcpyDtoHAsync(fresh, from, BYTES, waiting));
}

static void change(void) {
  wait_for_word();
  for (int i = 0; i < BYTES / 4; i += 256) ((int*)known)[i] = i + 1;
}

static CUresult load(void) {
  CUmodule loaded;
  return cuLibraryGetModule(&loaded, library);
}

static CUresult map(void) {
  CUdeviceptr p;
  return cuMemHostGetDevicePointer(&p, fresh, 0);
}

static CUresult submit(void) {
  CUstream other;
  CUdeviceptr p;
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&p, 4));
  return cuMemsetD32Async(p, 0, 1, other);
}

static CUresult reset(void) {
  return cuDevicePrimaryCtxReset(0);
}

static const struct {
  const char* name;
  void (*prepare)(void);
  CUresult (*request)(void);
  void (*use)(void);
} kinds[] = {{"library", fill, load, use_library},
             {"mapped", fill, map, use_mapped},
             {"copied", copy, map, use_mapped},
             {"changed", change, submit, use_mapped},
             {"reset", wait_for_word, reset, use_primary_context}};

int main(int count, char** arguments) {
  int kind = 0;
  pthread_t writer;
  CUdeviceptr p;
  while (count > 1 && strcmp(arguments[1], kinds[kind].name)) ++kind;
  create_context();
  OK(cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
  OK(cuCtxCreate(&beside, 0, 0, 0));
  OK(cuStreamCreate(&writing, CU_STREAM_NON_BLOCKING));
  OK(cuCtxSetCurrent(context));
  OK(cuMemAlloc(&word, 4));
  OK(cuMemsetD32(word, 0, 1));
  OK(cuCtxSetCurrent(0));
  OK(cuLibraryLoadData(&library, LARGE_PTX, 0, 0, 0, 0, 0, 0));
  OK(cuCtxSetCurrent(context));
  OK(cuMemHostAlloc(&known, BYTES, 0));
  OK(cuMemHostAlloc(&fresh, BYTES, 0));
  OK(cuMemHostGetDevicePointer(&p, known, 0));
  kinds[kind].prepare();
  pthread_create(&writer, 0, write_word, kinds[kind].use);
  printf("%s -> %d\n", kinds[kind].name, (int)kinds[kind].request());
  pthread_join(writer, 0);
  return 0;
}
