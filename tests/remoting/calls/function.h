// The exported functions of both libraries; program.py generates the tables.
#pragma once
#include <cstdint>
#include <span>

// A value that the header declares for a parameter; see forms.py.
struct Form {
  const char* name;
  uint64_t value;
};
struct Parameter {
  const char* name;
  char form;       // see exported.py
  unsigned bytes;  // of a number, or of the number behind a pointer
  const char* value;
  std::span<const Form> forms;
};
struct Function {
  const char* name;
  bool nvml;
  int (*call)(void* symbol, const uint64_t* a);
  std::span<const Parameter> parameters;
};
// A row of the cuGetProcAddress table.
struct Entry {
  const char* base;
  int version, per_thread;
  const char* symbol;
};

extern const std::span<const Function> kAllFunctions;
extern const std::span<const Entry> kEntries;
