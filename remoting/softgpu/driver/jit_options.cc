#include "softgpu/driver/jit_options.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "softgpu/driver/driver.h"
#include "softgpu/driver/module.h"

namespace softgpu {

JitLogs::JitLogs(unsigned n, const CUjit_option* options, void** values) {
  for (unsigned i = 0; i < n && options && values; ++i) switch (options[i]) {
      case CU_JIT_ERROR_LOG_BUFFER: error_.buffer = (char*)values[i]; break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: error_.bytes = &values[i]; break;
      case CU_JIT_INFO_LOG_BUFFER: info_.buffer = (char*)values[i]; break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: info_.bytes = &values[i]; break;
      default: break;
    }
}

void JitLogs::Log::write(const std::string& text) const {
  auto room = bytes ? (unsigned)(uintptr_t)*bytes : 0u;
  if (!buffer || !room) return;
  size_t n = std::min<size_t>(room - 1, text.size());
  std::memcpy(buffer, text.data(), n);
  buffer[n] = 0;
  *bytes = (void*)std::min<size_t>(text.size(), room);  // of a cut text with its end
}

void JitLogs::write(const std::string& errors) const {
  error_.write(errors);
  info_.write("");
}

// Tells a program without a buffer for the log what to ask a compiler for.
static void explain_once(const std::string& text) {
  static std::once_flag explained;
  std::call_once(explained, [&] { std::fprintf(stderr, "software GPU: %s\n", text.c_str()); });
}

bool valid_options(unsigned n, const CUjit_option* options, void** values) {
  return !n || (n <= CU_JIT_NUM_OPTIONS && options && values);
}

CUresult load_module(const void* image, int ordinal, unsigned n, const CUjit_option* options,
                     void** values, ModuleState*& out) {
  if (!valid_options(n, options, values)) return CUDA_ERROR_INVALID_VALUE;
  JitLogs logs(n, options, values);
  std::string errors;
  CUresult r = load_module(image, ordinal, out, &errors);
  if (r == CUDA_ERROR_NO_BINARY_FOR_GPU && !logs.want_errors()) explain_once(errors);
  if (!r && logs.want_errors()) errors = driver()->compiler.examine(out->ptx);
  logs.write(errors);
  return r;
}

}  // namespace softgpu
