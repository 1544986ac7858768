// Libraries: images that are loaded into a context when one of their kernels is first used there.
//
// Thread safety: all functions may be called from any thread. A library's mutex is held while it is
// loaded, which blocks for a round trip; the mutex of a module may be taken under it.
#pragma once
#include <cuda.h>

#include <string>
#include <utility>
#include <vector>

#include "client/module.h"
#include "mutex.h"

namespace busbar::client {

struct Kernel;

struct Library {
  std::string image;
  JitOptions options;
  void* handle = nullptr;
  Mutex mutex;
  struct Loaded {
    Context* context;
    uint64_t generation;  // of the context at the load; later contexts do not have the module
    Module* module;
  };
  std::vector<Loaded> modules GUARDED_BY(mutex);
  std::vector<std::pair<std::string, Kernel*>> kernels GUARDED_BY(mutex);  // by name
};

struct Kernel {
  Library* library = nullptr;
  std::string name;
  void* handle = nullptr;
};

// Return the library's module in a context; loads it if necessary.
CUresult module_of(Library* l, Context* c, Module*& out);

// Return the function of a CUfunction or a CUkernel: runtimes pass either. Null with `error` set on
// failure. A CUkernel needs a current context and may block for a load.
Function* find_function(CUfunction handle, CUresult& error);

}  // namespace busbar::client
