// The process that reads PTX: it has memory and a socket to softgpu-compiler, and nothing else. It
// is replaced when it ends or takes too long.
//
// Thread safety: for a process with one thread.
#pragma once
#include <sys/types.h>

#include <string>

#include "softgpu/emit/kernel.h"
#include "softgpu/jit/messages.h"

namespace softgpu::jit {

struct Reply {
  Status status;
  std::string body;  // a reason, or the encoded answer
};

class Translator {
 public:
  // `session` is a descriptor that the process must not have.
  explicit Translator(int session) : session_(session) {}

  // Answer a request: descriptions and refusals as they are, a kernel as its C.
  Reply answer(uint64_t kind, const std::string& body, int64_t deadline_ms);

 private:
  bool start();
  Reply end(bool is_late);
  const int session_;
  int socket_ = -1;  // -1: there is no process
  pid_t pid_ = -1;
};

// Decode the answer to Request::compile. Return false if it is malformed.
bool decode(const std::string& bytes, emit::KernelSource& kernel);

}  // namespace softgpu::jit
