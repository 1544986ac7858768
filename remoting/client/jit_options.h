// Options of the PTX compiler and linker.
//
// Thread safety: all functions may be called from any thread. They keep no state.
#pragma once
#include <cuda.h>

#include <string_view>
#include <vector>

#include "wire/decode.h"
#include "wire/jit_option.h"

namespace busbar::client {

using JitOptions = std::vector<wire::JitOption>;

// Return whether the arrays of options and values can be read.
bool valid_jit_options(unsigned n, const CUjit_option* options, void** values);

// Return the options with numeric values, at most kMaxJitOptions. They are sent to the node.
JitOptions numeric_jit_options(unsigned n, const CUjit_option* options, void** values);

// The program's buffers for messages of the compiler. It must keep `values` until they are written.
class JitLogs {
 public:
  JitLogs() = default;
  JitLogs(unsigned n, const CUjit_option* options, void** values);
  // Return the sizes of the error log and of the information log, for the request.
  struct Sizes {
    uint32_t error, info;
  };
  Sizes sizes() const { return {error_.wanted(), info_.wanted()}; }
  // Reads the logs at the front of a reply, fills the buffers and returns the error log. The
  // options with their sizes get the bytes written, as CUDA documents.
  std::string_view read(wire::Decoder& reply) const;

 private:
  struct Log {
    char* buffer = nullptr;
    void** bytes = nullptr;  // value of the option with the size of the buffer
    uint32_t wanted() const;
    void write(std::string_view text) const;
  };
  Log error_, info_;
};

}  // namespace busbar::client
