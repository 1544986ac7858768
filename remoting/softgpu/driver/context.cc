#include "softgpu/driver/context.h"

namespace softgpu {

std::vector<Context*>& context_stack() {
  static thread_local auto* stack =
      new std::vector<Context*>;  // never destroyed: used after thread-locals are
  return *stack;
}

Context* current() {
  auto& s = context_stack();
  return s.empty() ? nullptr : s.back();
}

CUresult current_context(Context*& c) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  c = current();
  if (!c) return CUDA_ERROR_INVALID_CONTEXT;
  if (c->destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return c->error;
}

}  // namespace softgpu
