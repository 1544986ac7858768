// Modules and the functions in them.
//
// Thread safety: all functions may be called from any thread. A module must not be unloaded while
// another thread uses it. Functions that return a CUresult block for a round trip unless the result
// is cached.
#pragma once
#include <cuda.h>

#include <string>
#include <utility>
#include <vector>

#include "client/attempt.h"
#include "client/function.h"
#include "client/jit_options.h"
#include "mutex.h"

namespace busbar::client {

struct Context;

struct Module {
  Context* context = nullptr;
  uint64_t context_generation = 0;  // a context that was activated again has other modules
  uint32_t id = 0;
  bool of_library = false;  // unloaded with its library
  void* handle = nullptr;
  Mutex mutex;
  std::vector<std::pair<std::string, Function*>> functions GUARDED_BY(mutex);  // by name
  std::vector<uint64_t> globals GUARDED_BY(mutex);  // addresses that the program has requested
};

// Loads an image. `logs` receive the compiler's messages, also on failure.
CUresult load_module(Context* c, const void* image, const JitOptions& options, const JitLogs& logs,
                     Attempt attempt, Module*& out);
void unload_module(Module* m);
std::vector<Module*> modules_of(Context* c);

CUresult get_function(Module* m, const char* name, Function*& out);
CUresult list_functions(Module* m, std::vector<std::string>& names);

}  // namespace busbar::client
