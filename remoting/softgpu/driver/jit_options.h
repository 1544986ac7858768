// Options of the calls that load PTX: buffers for messages of the compiler.
#pragma once
#include <cuda.h>

namespace softgpu {

struct ModuleState;

// Load a module for a device. The program's error log, if it has one, gets the reason of a failure;
// otherwise it names the kernels that cannot be compiled.
CUresult load_module(const void* image, int ordinal, unsigned n, const CUjit_option* options,
                     void** values, ModuleState*& out);

}  // namespace softgpu
