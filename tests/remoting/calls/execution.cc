#include "execution.h"

#include <dlfcn.h>

#include "child.h"

void* symbol_of(const Function& f) {
  static void* cuda = dlopen("libcuda.so.1", RTLD_NOW);
  static void* nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  void* found = dlsym(f.nvml ? nvml : cuda, f.name);
  if (!found) {
    printf("%s is not exported\n", f.name);
    exit(1);
  }
  return found;
}

bool starts(const char* name, const char* with) {
  return !strncmp(name, with, strlen(with));
}

void restore(const Function& f, const Arguments& a, Objects& objects) {
  if (starts(f.name, "cuCtxCreate") && a.words[0]) cuCtxDestroy(*(CUcontext*)a.words[0]);
  if (starts(f.name, "cuStreamBeginCapture")) {
    CUgraph g;
    auto s = (CUstream)a.words[0];
    cuStreamEndCapture(s || !strstr(f.name, "_ptsz") ? s : CU_STREAM_PER_THREAD, &g);
  }
  if (starts(f.name, "cuThreadExchange")) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuThreadExchangeStreamCaptureMode(&mode);
  }
  cuCtxSetCurrent(objects.context());
}

int execute(const Function& f, void* symbol, const Arguments& a, Objects& objects) {
  ++progress->calls;
  int result = f.call(symbol, a.words);
  if (f.nvml || result) return result;
  restore(f, a, objects);
  return cuCtxSynchronize();
}
