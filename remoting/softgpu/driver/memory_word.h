// Words of memory that streams wait for.
#pragma once
#include <cuda.h>

namespace softgpu {

struct Context;

// Block until a 32-bit or 64-bit word satisfies a condition of cuStreamWaitValue, or the context
// has an error or is destroyed.
template <typename T>
void wait_for_word(Context* c, CUdeviceptr p, T value, unsigned flags);

}  // namespace softgpu
