// The compiler process: it receives untrusted PTX and returns paths of compiled kernels. It has no
// access to device memory or secrets.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "softgpu/jit/cache.h"
#include "softgpu/jit/confinement.h"
#include "softgpu/jit/limits.h"
#include "softgpu/jit/translator.h"

namespace softgpu::jit {

namespace {
void keep_text(const std::string& text) {
  const char* path = std::getenv("BUSBAR_SOFTGPU_KEEP_C");
  FILE* f = path && *path ? fopen(path, "w") : nullptr;
  if (!f) return;
  fputs(text.c_str(), f);
  fclose(f);
}

Status status_of(CompileResult result) {
  return result == CompileResult::limit_exceeded ? Status::limit_exceeded : Status::compiler_failed;
}

Reply compile(const std::string& translated, int64_t deadline_ms) {
  emit::KernelSource kernel;
  if (!decode(translated, kernel)) return {Status::compiler_failed, "malformed translation"};
  keep_text(kernel.text);
  std::string path, error;
  CompileResult result = library_for(kernel, deadline_ms, path, error);
  if (result != CompileResult::ok) return {status_of(result), error};
  return {Status::ok, encode(Compiled{path, kernel.shared_bytes, kernel.local_bytes,
                                      kernel.constant_bytes, kernel.registers, kernel.globals})};
}

void serve(int socket) {
  Translator translator(socket);
  uint64_t kind;
  std::string body;
  while (receive_message(socket, kind, body, kNoDeadline)) {
    int64_t deadline_ms = now_ms() + (int64_t)request_milliseconds();
    Reply r = translator.answer(kind, body, deadline_ms);
    if (kind == (uint64_t)Request::compile && r.status == Status::ok)
      r = compile(r.body, deadline_ms);
    if (!send_message(socket, (uint64_t)r.status, r.body, kNoDeadline)) return;
  }
}

}  // namespace
}  // namespace softgpu::jit

// softgpu-compiler [DESCRIPTOR]: serves requests on a socket, which is descriptor 0 by default.
int main(int argc, char** argv) {
  using namespace softgpu::jit;
  int socket = argc > 1 ? std::atoi(argv[1]) : 0;
  if (!confine_compiler()) {
    std::fputs("softgpu-compiler: the kernel permits no filter of system calls\n", stderr);
    return 1;
  }
  serve(socket);
  if (argc == 1) trim_cache_directory();
  return 0;
}
