// CUDA entry points: modules.
#include "client/module.h"

#include <cstring>

#include "client/api/require.h"
#include "client/capture.h"
#include "client/image.h"
#include "wire/growing_encoder.h"

using namespace busbar;
using namespace busbar::client;

API CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned n, CUjit_option* options,
                                void** values) {
  REQUIRE_CONTEXT(c);
  if (!out || !image || !valid_jit_options(n, options, values)) return CUDA_ERROR_INVALID_VALUE;
  Module* m;
  JitLogs logs(n, options, values);
  if (CUresult r =
          load_module(c, image, numeric_jit_options(n, options, values), logs, Attempt::waits, m))
    return r;
  *out = (CUmodule)m->handle;
  return CUDA_SUCCESS;
}
API CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  return cuModuleLoadDataEx(out, image, 0, nullptr, nullptr);
}
API CUresult cuModuleLoadFatBinary(CUmodule* out, const void* image) {
  return cuModuleLoadDataEx(out, image, 0, nullptr, nullptr);
}

API CUresult cuModuleUnload(CUmodule h) {
  REQUIRE_MODULE(m, h);
  REQUIRE_CONTEXT(c);
  if (m->of_library) return CUDA_ERROR_NOT_PERMITTED;
  if (CUresult r = unsafe_in_capture()) return r;
  synchronize(c);
  unload_module(m);
  return CUDA_SUCCESS;
}
API CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (!mode) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

API CUresult cuModuleGetFunction(CUfunction* out, CUmodule h, const char* name) {
  REQUIRE_MODULE(m, h);
  if (!out || !name || !*name) return CUDA_ERROR_INVALID_VALUE;
  Function* f;
  if (CUresult r = get_function(m, name, f)) return r;
  *out = (CUfunction)f->handle;
  return CUDA_SUCCESS;
}

API CUresult cuModuleGetGlobal(CUdeviceptr* p, size_t* bytes, CUmodule h, const char* name) {
  REQUIRE_MODULE(m, h);
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  if (std::strlen(name) > wire::kMaxNameBytes) return CUDA_ERROR_NOT_FOUND;
  Link* link = m->context->device->link;
  uint64_t id = link->next_id();
  wire::GrowingEncoder e(wire::Op::get_global, m->context->id);
  e.put(id).put(m->id).text(name);
  Reply reply = link->call(id, e.finish(), e.size());
  if (reply.status) return (CUresult)reply.status;
  wire::Decoder d(reply.body.data(), reply.body.size());
  uint64_t at = d.get<uint64_t>(), n = d.get<uint64_t>();
  if (session()->addresses.find(at).kind == Region::none) {
    session()->addresses.add({Region::global, at, n, 0, m->context, 0});
    MutexLock lock(m->mutex);
    m->globals.push_back(at);
  }
  if (p) *p = at;
  if (bytes) *bytes = n;
  return CUDA_SUCCESS;
}

API CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule h) {
  REQUIRE_MODULE(m, h);
  std::vector<std::string> names;
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = list_functions(m, names)) return r;
  *count = (unsigned)names.size();
  return CUDA_SUCCESS;
}
API CUresult cuModuleEnumerateFunctions(CUfunction* out, unsigned n, CUmodule h) {
  REQUIRE_MODULE(m, h);
  std::vector<std::string> names;
  if (!out || !n) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = list_functions(m, names)) return r;
  for (size_t i = 0; i < names.size() && i < n; ++i)
    if (CUresult r = cuModuleGetFunction(&out[i], h, names[i].c_str())) return r;
  return CUDA_SUCCESS;
}
