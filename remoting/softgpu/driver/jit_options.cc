#include "softgpu/driver/jit_options.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "softgpu/driver/driver.h"
#include "softgpu/driver/module.h"

namespace softgpu {

static bool wants_log(unsigned n, const CUjit_option* options) {
  return options && std::count(options, options + n, CU_JIT_ERROR_LOG_BUFFER);
}

static void write_log(unsigned n, const CUjit_option* options, void** values,
                      const std::string& log) {
  char* buffer = nullptr;
  size_t room = 0;
  for (unsigned i = 0; i < n && options && values; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) buffer = (char*)values[i];
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) room = (size_t)values[i];
  }
  if (buffer && room) {
    size_t k = std::min(room - 1, log.size());
    std::memcpy(buffer, log.data(), k);
    buffer[k] = 0;
  }
}

CUresult load_module(const void* image, int ordinal, unsigned n, const CUjit_option* options,
                     void** values, ModuleState*& out) {
  std::string log;
  CUresult r = load_module(image, ordinal, out, &log);
  if (!r && wants_log(n, options)) log = driver()->compiler.examine(out->ptx);
  if (!log.empty()) write_log(n, options, values, log);
  return r;
}

}  // namespace softgpu
