// Compiled kernels on disk, named by the hash of all that went into them.
#pragma once
#include <string>

namespace softgpu::jit {

// The path of the shared library for this C text; compiles it when it is not there.
// `error` says what the compiler said. Blocking; a compile is ended after 120 s of CPU.
std::string library_for(const std::string& c_text, std::string& error);

std::string
cache_directory();  // BUSBAR_SOFTGPU_CACHE, else under XDG_CACHE_HOME or HOME; made 0700

}  // namespace softgpu::jit
