// CUDA entry points: the linker, whose output is PTX.
#include <cstring>
#include <string>
#include <vector>

#include "softgpu/api/require.h"
#include "softgpu/driver/driver.h"
#include "softgpu/driver/image.h"
#include "softgpu/driver/jit_options.h"
#include "softgpu/driver/linked_ptx.h"

using namespace softgpu;

namespace {
struct Link {
  std::vector<std::string> inputs;
  std::string joined;
  int max_registers = 0;     // 0: no limit given
  bool has_archive = false;  // which may define names
  JitLogs logs;
};

// Parse the joined texts, and refuse them if a name has no definition.
jit::Status check_names(const Link& l, std::string& errors) {
  if (!l.has_archive) return driver()->compiler.resolve(l.joined, errors);
  jit::ModuleDescription description;
  return driver()->compiler.describe(l.joined, description, errors);
}
}  // namespace

API CUresult cuLinkCreate(unsigned n, CUjit_option* options, void** values, CUlinkState* out) {
  REQUIRE_DRIVER();
  if (!out || !valid_options(n, options, values)) return CUDA_ERROR_INVALID_VALUE;
  auto* l = new Link{{}, {}, 0, false, JitLogs(n, options, values)};
  for (unsigned i = 0; i < n && options && values; ++i)
    if (options[i] == CU_JIT_MAX_REGISTERS) l->max_registers = (int)(uintptr_t)values[i];
  add_handle(l);
  *out = (CUlinkState)l;
  return CUDA_SUCCESS;
}

API CUresult cuLinkAddData(CUlinkState h, CUjitInputType type, void* data, size_t bytes,
                           const char*, unsigned, CUjit_option*, void**) {
  auto* l = (Link*)h;
  if (!l || !is_live(l)) return CUDA_ERROR_INVALID_HANDLE;
  if (data && type == CU_JIT_INPUT_PTX) bytes = strnlen((const char*)data, bytes);
  if (!data || !bytes) return CUDA_ERROR_INVALID_VALUE;
  std::string text;
  if (type == CU_JIT_INPUT_PTX)
    text.assign((const char*)data, bytes);
  else if (bytes >= 8 && !std::memcmp(data, "!<arch>\n", 8)) {
    l->has_archive = true;  // machine code of the device runtime, whose functions are built in
    return CUDA_SUCCESS;
  } else {
    bool binary = false;
    text = ptx_of_image({(const char*)data, bytes}, binary);
  }
  if (text.empty()) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  l->inputs.push_back(std::move(text));
  return CUDA_SUCCESS;
}

API CUresult cuLinkComplete(CUlinkState h, void** image, size_t* bytes) {
  auto* l = (Link*)h;
  if (!l || !is_live(l)) return CUDA_ERROR_INVALID_HANDLE;
  if (!image || l->inputs.empty()) return CUDA_ERROR_INVALID_VALUE;
  l->joined = link_ptx(l->inputs, l->max_registers);
  std::string errors;
  jit::Status status = check_names(*l, errors);
  if (status == jit::Status::invalid_ptx || status == jit::Status::undefined_names) {
    l->logs.write(errors);
    // NVIDIA's driver has no error of its own for an undefined name: its log names it.
    return status == jit::Status::invalid_ptx ? CUDA_ERROR_INVALID_PTX : CUDA_ERROR_UNKNOWN;
  }
  l->logs.write(l->logs.want_errors() ? driver()->compiler.examine(l->joined) : "");
  *image = l->joined.data();
  if (bytes) *bytes = l->joined.size() + 1;
  return CUDA_SUCCESS;
}
API CUresult cuLinkDestroy(CUlinkState h) {
  if (!h || !remove_handle((Link*)h)) return CUDA_ERROR_INVALID_HANDLE;
  delete (Link*)h;
  return CUDA_SUCCESS;
}
