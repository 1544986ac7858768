// Options of the PTX compiler and linker.
//
// Thread safety: all functions may be called from any thread. They keep no state.
#pragma once
#include <cuda.h>

#include <string>
#include <vector>

#include "wire/jit_option.h"

namespace busbar::client {

using JitOptions = std::vector<wire::JitOption>;

// Return the options with numeric values, at most kMaxJitOptions. They are sent to the node.
JitOptions numeric_jit_options(unsigned n, const CUjit_option* options, void** values);

// The program's buffer for error messages; null: none was given.
struct JitLog {
  char* buffer = nullptr;
  size_t capacity = 0;  // bytes, with the terminating zero
  void write(const std::string& text) const;
};
JitLog find_jit_log(unsigned n, const CUjit_option* options, void** values);

}  // namespace busbar::client
