// Compiled kernels on disk, named by the hash of all inputs: C text, compiler, flags, processor.
#pragma once
#include <string>

#include "softgpu/emit/kernel.h"

namespace softgpu::jit {

// Return the path of the shared library of a kernel; compile it if the cache does not have it.
// Blocks while the C compiler runs, for at most 120 s of CPU time. On failure return an empty
// string and set `error` to the output of the compiler.
std::string library_for(const emit::KernelSource& kernel, std::string& error);

// Return the folder of the cache: BUSBAR_SOFTGPU_CACHE, or a folder in XDG_CACHE_HOME or HOME. It
// is created with mode 0700.
std::string cache_directory();

}  // namespace softgpu::jit
