// The driver's connection to the compiler process.
//
// Thread safety: one request at a time; calls from other threads wait. All functions but start
// block for the reply, which comes within the time limit of a request (limits.h).
#pragma once
#include <mutex>
#include <string>

#include "softgpu/jit/messages.h"

namespace softgpu::jit {

class Compiler {
 public:
  // Start the process, whose program lies beside this library, or take over the one that the
  // spawner has started (BUSBAR_SOFTGPU_COMPILER_FD). Call before the caller gives up the right to
  // execute programs.
  bool start();
  // Get kernels and variables of a module. On failure `log` gets the reason.
  Status describe(const std::string& ptx, ModuleDescription& out, std::string& log);
  // Find out whether all names are defined that a module uses. On failure `log` gets those that are
  // not.
  Status resolve(const std::string& ptx, std::string& log);
  // Return why kernels of a module would be refused, one line for each; empty: none would.
  std::string examine(const std::string& ptx);
  // Compile a kernel. On failure `log` gets the reason.
  Status compile(const std::string& ptx, const std::string& kernel, Compiled& out,
                 std::string& log);

 private:
  Status call(Request request, const std::string& ptx, const std::string& kernel,
              std::string& body);
  std::mutex mutex_;
  int fd_ = -1;           // of the socket; -1: not connected
  bool started_ = false;  // by the spawner, which does it once
};

}  // namespace softgpu::jit
