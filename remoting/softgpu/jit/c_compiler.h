// Runs the C compiler in a process group of its own, with limits of time, memory and files.
//
// Thread safety: for a process with one thread.
#pragma once
#include <cstdint>
#include <string>

#include "softgpu/emit/kernel.h"

namespace softgpu::jit {

enum class CompileResult { ok, failed, limit_exceeded };

// Return the path of the C compiler, and its arguments except the level of optimisation. Both are
// part of the name of a compiled kernel.
std::string c_compiler();
std::string c_compiler_flags();

// Compile a kernel to a shared library. Blocks until the C compiler has ended, or until the
// deadline: then it is killed. On failure `error` gets the reason.
CompileResult run_c_compiler(const emit::KernelSource& kernel, const std::string& library,
                             int64_t deadline_ms, std::string& error);

}  // namespace softgpu::jit
