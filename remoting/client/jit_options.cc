#include "client/jit_options.h"

#include <algorithm>

namespace busbar::client {

bool valid_jit_options(unsigned n, const CUjit_option* options, void** values) {
  return !n || (n <= CU_JIT_NUM_OPTIONS && options && values);
}

JitOptions numeric_jit_options(unsigned n, const CUjit_option* options, void** values) {
  JitOptions kept;
  for (unsigned i = 0; i < n && options && values && kept.size() < wire::kMaxJitOptions; ++i)
    if (wire::is_number(options[i])) kept.push_back({(uint32_t)options[i], 0, (uint64_t)values[i]});
  return kept;
}

JitLogs::JitLogs(unsigned n, const CUjit_option* options, void** values) {
  for (unsigned i = 0; i < n && options && values; ++i) switch (options[i]) {
      case CU_JIT_ERROR_LOG_BUFFER: error_.buffer = (char*)values[i]; break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: error_.bytes = &values[i]; break;
      case CU_JIT_INFO_LOG_BUFFER: info_.buffer = (char*)values[i]; break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: info_.bytes = &values[i]; break;
      default: break;
    }
}

std::string_view JitLogs::read(wire::Decoder& reply) const {
  std::string_view errors = reply.text(wire::kMaxJitLogBytes);
  error_.write(errors);
  info_.write(reply.text(wire::kMaxJitLogBytes));
  return errors;
}

// At least kJitLogBytes, because missing code is explained from the error log.
uint32_t JitLogs::Log::wanted() const {
  auto room = bytes && buffer ? (uint32_t)(uintptr_t)*bytes : 0u;
  return std::clamp(room, wire::kJitLogBytes, wire::kMaxJitLogBytes);
}

void JitLogs::Log::write(std::string_view text) const {
  auto room = bytes ? (unsigned)(uintptr_t)*bytes : 0u;
  if (!buffer || !room) return;
  size_t n = text.copy(buffer, room - 1);
  buffer[n] = 0;
  *bytes = (void*)std::min<size_t>(text.size(), room);  // of a cut text with its end
}

}  // namespace busbar::client
