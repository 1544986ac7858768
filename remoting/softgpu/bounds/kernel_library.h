// Emitted C as code in this process.
//
// Thread safety: all functions may be called from any thread.
#pragma once
#include <string>

#include "softgpu/bounds/arenas.h"
#include "softgpu/emit/kernel.h"

namespace softgpu::bounds {

// Compile a kernel with AddressSanitizer and load it. Module variables follow each other from the
// window's base. Exits with the compiler's output on failure.
EmittedKernel load(const emit::KernelSource& source, const ptx::Module& module);

}  // namespace softgpu::bounds
