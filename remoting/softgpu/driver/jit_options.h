// Options of the calls that load and link PTX: buffers for messages of the compiler.
#pragma once
#include <cuda.h>

#include <string>

namespace softgpu {

struct ModuleState;

// Buffers of the program for the compiler's errors and for its information, which is empty here.
// The options must be valid as long as this object, as CUDA requires of a link.
class JitLogs {
 public:
  JitLogs(unsigned n, const CUjit_option* options, void** values);
  bool want_errors() const { return error_.buffer != nullptr; }
  // Fill the buffers. The options with their sizes get the bytes written, as CUDA documents.
  void write(const std::string& errors) const;

 private:
  struct Log {
    char* buffer = nullptr;
    void** bytes = nullptr;  // value of the option with the size of the buffer
    void write(const std::string& text) const;
  };
  Log error_, info_;
};

// Return whether the arrays of options and values can be read.
bool valid_options(unsigned n, const CUjit_option* options, void** values);

// Load a module for a device. The program's error log, if it has one, gets the reason of a failure;
// otherwise it names the kernels that cannot be compiled.
CUresult load_module(const void* image, int ordinal, unsigned n, const CUjit_option* options,
                     void** values, ModuleState*& out);

}  // namespace softgpu
