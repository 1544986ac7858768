// A row of the cuGetProcAddress table that the generator writes.
#pragma once

struct EntryPoint {
  const char* base;
  int version;     // first CUDA version that has it
  int per_thread;  // the form for CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
  void* function;
};

extern const EntryPoint kEntryPoints[];
extern const unsigned kEntryPointCount;
