#include "client/jit_options.h"

#include <algorithm>
#include <cstring>

namespace busbar::client {

JitOptions numeric_jit_options(unsigned n, const CUjit_option* options, void** values) {
  JitOptions kept;
  for (unsigned i = 0; i < n && options && values && kept.size() < wire::kMaxJitOptions; ++i)
    if (wire::is_number(options[i])) kept.push_back({(uint32_t)options[i], 0, (uint64_t)values[i]});
  return kept;
}

JitLog find_jit_log(unsigned n, const CUjit_option* options, void** values) {
  JitLog log;
  for (unsigned i = 0; i < n && options && values; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) log.buffer = (char*)values[i];
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) log.capacity = (size_t)values[i];
  }
  return log;
}

void JitLog::write(const std::string& text) const {
  if (!buffer || !capacity) return;
  size_t n = std::min(capacity - 1, text.size());
  std::memcpy(buffer, text.data(), n);
  buffer[n] = 0;
}

}  // namespace busbar::client
