// CUDA entry points: libraries and kernels.
#include "client/library.h"

#include <memory>

#include "client/api/require.h"
#include "client/image.h"

using namespace busbar;
using namespace busbar::client;

API CUresult cuLibraryLoadData(CUlibrary* out, const void* code, CUjit_option* options,
                               void** values, unsigned n, CUlibraryOption*, void**, unsigned) {
  REQUIRE_SESSION;
  if (!out || !code || !valid_jit_options(n, options, values)) return CUDA_ERROR_INVALID_VALUE;
  auto l = std::make_unique<Library>();
  auto& a = session()->devices.front()->attributes;
  l->image = image_bytes(code, a[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR],
                         a[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR]);
  l->options = numeric_jit_options(n, options, values);
  if (Context* c = current_context()) {
    Module* m;
    JitLogs logs(n, options, values);
    CUresult r = load_module(c, l->image.data(), l->options, logs, Attempt::waits, m);
    if (r && r != CUDA_ERROR_INVALID_PTX) return r;  // PTX is refused when it is needed
    if (!r) {
      m->of_library = true;
      MutexLock lock(l->mutex);
      l->modules.push_back({c, c->generation, m});
    }
  }
  l->handle = session()->libraries.add(l.get());
  *out = (CUlibrary)l.release()->handle;
  return CUDA_SUCCESS;
}

API CUresult cuLibraryUnload(CUlibrary h) {
  REQUIRE_LIBRARY(l, h);
  session()->libraries.remove(h);
  decltype(l->modules) modules;
  decltype(l->kernels) kernels;
  {
    MutexLock lock(l->mutex);
    modules.swap(l->modules);
    kernels.swap(l->kernels);
  }
  for (auto& [name, k] : kernels) session()->kernels.remove(k->handle);
  for (auto& loaded : modules)
    if (loaded.generation == loaded.context->generation && !loaded.context->destroyed) {
      synchronize(loaded.context);
      unload_module(loaded.module);
    }
  for (auto& [name, k] : kernels) delete k;
  delete l;
  return CUDA_SUCCESS;
}

API CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary h, const char* name) {
  REQUIRE_LIBRARY(l, h);
  if (!out || !name || !*name) return CUDA_ERROR_INVALID_VALUE;
  if (Context* c = current_context()) {  // fails now if there is no such kernel
    Module* m;
    Function* f;
    if (CUresult r = module_of(l, c, m)) return r;
    if (CUresult r = get_function(m, name, f)) return r;
  }
  MutexLock lock(l->mutex);
  for (auto& [known, k] : l->kernels)
    if (known == name) {
      *out = (CUkernel)k->handle;
      return CUDA_SUCCESS;
    }
  auto* k = new Kernel{l, name, nullptr};
  k->handle = session()->kernels.add(k);
  l->kernels.emplace_back(name, k);
  *out = (CUkernel)k->handle;
  return CUDA_SUCCESS;
}

API CUresult cuLibraryGetModule(CUmodule* out, CUlibrary h) {
  REQUIRE_LIBRARY(l, h);
  REQUIRE_CONTEXT(c);
  Module* m;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = module_of(l, c, m)) return r;
  *out = (CUmodule)m->handle;
  return CUDA_SUCCESS;
}
API CUresult cuLibraryGetGlobal(CUdeviceptr* p, size_t* bytes, CUlibrary h, const char* name) {
  CUmodule m;
  if (CUresult r = cuLibraryGetModule(&m, h)) return r;
  return cuModuleGetGlobal(p, bytes, m, name);
}
API CUresult cuKernelGetFunction(CUfunction* out, CUkernel k) {
  REQUIRE_SESSION;
  CUresult e;
  Function* f = find_function((CUfunction)k, e);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (f) *out = (CUfunction)f->handle;
  return e;
}
API CUresult cuKernelGetName(const char** name, CUkernel h) {
  if (!name || !h) return CUDA_ERROR_INVALID_VALUE;
  REQUIRE_KERNEL(k, h);
  *name = k->name.c_str();
  return CUDA_SUCCESS;
}
API CUresult cuKernelGetLibrary(CUlibrary* out, CUkernel h) {
  REQUIRE_KERNEL(k, h);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUlibrary)k->library->handle;
  return CUDA_SUCCESS;
}

static CUresult kernel_names(Library* l, std::vector<std::string>& names) {
  REQUIRE_CONTEXT(c);
  Module* m;
  if (CUresult r = module_of(l, c, m)) return r;
  return list_functions(m, names);
}
API CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary h) {
  REQUIRE_LIBRARY(l, h);
  std::vector<std::string> names;
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = kernel_names(l, names)) return r;
  *count = (unsigned)names.size();
  return CUDA_SUCCESS;
}
API CUresult cuLibraryEnumerateKernels(CUkernel* out, unsigned n, CUlibrary h) {
  REQUIRE_LIBRARY(l, h);
  std::vector<std::string> names;
  if (!out || !n) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = kernel_names(l, names)) return r;
  for (size_t i = 0; i < names.size() && i < n; ++i)
    if (CUresult r = cuLibraryGetKernel(&out[i], h, names[i].c_str())) return r;
  return CUDA_SUCCESS;
}
