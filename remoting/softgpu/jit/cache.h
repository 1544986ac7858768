// Compiled kernels on disk, named by the hash of all inputs: C text, compiler, flags, processor.
#pragma once
#include <string>

#include "softgpu/jit/c_compiler.h"

namespace softgpu::jit {

// Get the path of the shared library of a kernel; compile it if the cache does not have it. Blocks
// until the C compiler has ended or the deadline passes. On failure `error` gets the reason.
CompileResult library_for(const emit::KernelSource& kernel, int64_t deadline_ms, std::string& path,
                          std::string& error);

// Return the folder of the cache: BUSBAR_SOFTGPU_CACHE, or a folder in XDG_CACHE_HOME or HOME. It
// is created with mode 0700.
std::string cache_directory();

// Remove the kernels that were used least recently, beyond 2 GiB. In a cage the spawner does that.
void trim_cache_directory();

}  // namespace softgpu::jit
