// The driver's end of the compiler process.
#pragma once
#include <mutex>
#include <string>

#include "softgpu/jit/messages.h"

namespace softgpu::jit {

class Compiler {
 public:
  // Starts the process, whose program lies beside this library. Call before the caller gives up
  // exec.
  bool start();
  Status describe(const std::string& ptx, ModuleDescription& out, std::string& log);
  std::string examine(
      const std::string& ptx);  // why kernels of a module would be refused; empty when none would
  Status compile(const std::string& ptx, const std::string& kernel, Compiled& out,
                 std::string& log);  // blocks for the C compiler

 private:
  Status ask(Request request, const std::string& ptx, const std::string& kernel, std::string& body);
  std::mutex mutex_;
  int fd_ = -1;
};

}  // namespace softgpu::jit
