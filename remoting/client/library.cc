#include "client/library.h"

#include "client/context.h"
#include "client/memory_request.h"
#include "client/session.h"

namespace busbar::client {

namespace {
CUresult try_module_of(Library* l, Context* c, Attempt attempt, Module*& out) {
  MutexLock lock(l->mutex);
  std::erase_if(l->modules, [](auto& m) { return m.generation != m.context->generation; });
  for (auto& loaded : l->modules)
    if (loaded.context == c) {
      out = loaded.module;
      return CUDA_SUCCESS;
    }
  if (CUresult r = load_module(c, l->image.data(), l->options, JitLogs(), attempt, out)) return r;
  out->of_library = true;
  l->modules.push_back({c, c->generation, out});
  return CUDA_SUCCESS;
}
}  // namespace

CUresult module_of(Library* l, Context* c, Module*& out) {
  return request_with_lock(c, [&](Attempt attempt) { return try_module_of(l, c, attempt, out); });
}

Function* find_function(CUfunction h, CUresult& error) {
  error = CUDA_ERROR_INVALID_HANDLE;
  if (Function* f = session()->functions.get(h)) {
    error = CUDA_SUCCESS;
    return f;
  }
  Kernel* k = session()->kernels.get(h);
  if (!k) return nullptr;
  Context* c;
  if ((error = require_context(c))) return nullptr;
  Module* m;
  Function* f = nullptr;
  if ((error = module_of(k->library, c, m)) || (error = get_function(m, k->name.c_str(), f)))
    return nullptr;
  return f;
}

}  // namespace busbar::client
