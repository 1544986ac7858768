// Libraries: images that are loaded in a context when one of their kernels is first used there.
#include "client/call.h"

using namespace busbar;
using namespace busbar::client;

#define CURRENT(c) \
  Context* c;      \
  if (CUresult r = require_context(c)) return r
#define LIBRARY(l, h)                                \
  if (!session()) return CUDA_ERROR_NOT_INITIALIZED; \
  Library* l = session()->libraries.get(h);          \
  if (!l) return CUDA_ERROR_INVALID_HANDLE
#define KERNEL(k, h)                                 \
  if (!session()) return CUDA_ERROR_NOT_INITIALIZED; \
  Kernel* k = session()->kernels.get(h);             \
  if (!k) return CUDA_ERROR_INVALID_HANDLE

API CUresult cuLibraryLoadData(CUlibrary* out, const void* code, CUjit_option* options,
                               void** values, unsigned n, CUlibraryOption*, void**, unsigned) {
  if (!session()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!out || !code) return CUDA_ERROR_INVALID_VALUE;
  auto l = std::make_unique<Library>();
  auto& a = session()->devices.front()->attributes;
  l->image = image_bytes(code, a[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR],
                         a[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR]);
  l->options = jit_options(n, options, values);
  if (Context* c = current_context()) {
    Module* m;
    std::string log;
    if (CUresult r = load_module(c, l->image.data(), l->options, &log, m)) {
      write_log(n, options, values, log);
      return r;
    }
    m->of_library = true;
    l->modules.push_back({c, c->life, m});
  }
  l->handle = session()->libraries.add(l.get());
  *out = (CUlibrary)l.release()->handle;
  return CUDA_SUCCESS;
}

API CUresult cuLibraryUnload(CUlibrary h) {
  LIBRARY(l, h);
  session()->libraries.remove(h);
  for (auto& [name, k] : l->kernels) session()->kernels.remove(k->handle);
  for (auto& loaded : l->modules)
    if (loaded.life == loaded.context->life && !loaded.context->destroyed) {
      synchronize(loaded.context);
      unload_module(loaded.module);
    }
  for (auto& [name, k] : l->kernels) delete k;
  delete l;
  return CUDA_SUCCESS;
}

API CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary h, const char* name) {
  LIBRARY(l, h);
  if (!out || !name || !*name) return CUDA_ERROR_INVALID_VALUE;
  if (Context* c = current_context()) {  // learn now whether it exists
    Module* m;
    Function* f;
    if (CUresult r = module_of(l, c, m)) return r;
    if (CUresult r = get_function(m, name, f)) return r;
  }
  std::lock_guard lock(l->mutex);
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
  LIBRARY(l, h);
  CURRENT(c);
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
  if (!session()) return CUDA_ERROR_NOT_INITIALIZED;
  CUresult e;
  Function* f = function_of((CUfunction)k, e);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (f) *out = (CUfunction)f->handle;
  return e;
}
API CUresult cuKernelGetName(const char** name, CUkernel h) {
  KERNEL(k, h);
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  *name = k->name.c_str();
  return CUDA_SUCCESS;
}
API CUresult cuKernelGetLibrary(CUlibrary* out, CUkernel h) {
  KERNEL(k, h);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUlibrary)k->library->handle;
  return CUDA_SUCCESS;
}

API CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option* options,
                                   void** values, unsigned n, CUlibraryOption* library_options,
                                   void** library_values, unsigned m) {
  std::string bytes;
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  return read_file(path, bytes) ? cuLibraryLoadData(out, bytes.c_str(), options, values, n,
                                                    library_options, library_values, m)
                                : CUDA_ERROR_FILE_NOT_FOUND;
}

static CUresult kernel_names(Library* l, std::vector<std::string>& names) {
  CURRENT(c);
  Module* m;
  if (CUresult r = module_of(l, c, m)) return r;
  return function_names(m, names);
}
API CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary h) {
  LIBRARY(l, h);
  std::vector<std::string> names;
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = kernel_names(l, names)) return r;
  *count = (unsigned)names.size();
  return CUDA_SUCCESS;
}
API CUresult cuLibraryEnumerateKernels(CUkernel* out, unsigned n, CUlibrary h) {
  LIBRARY(l, h);
  std::vector<std::string> names;
  if (!out || !n) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = kernel_names(l, names)) return r;
  for (size_t i = 0; i < names.size() && i < n; ++i)
    if (CUresult r = cuLibraryGetKernel(&out[i], h, names[i].c_str())) return r;
  return CUDA_SUCCESS;
}
