// The table behind cuGetProcAddress. remoting/codegen/libraries.py generates its rows.
#pragma once

struct EntryPoint {
  const char* base;  // name without a version suffix
  int version;       // first CUDA version that has this form, for example 12000
  int per_thread;    // 1: the form for CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
  void* function;
};

extern const EntryPoint kEntryPoints[];
extern const unsigned kEntryPointCount;
