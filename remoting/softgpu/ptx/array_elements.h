// Operands that name an element of an array: `mov.u64 %rd, a[2]` is its address, `ld.global.u32 %r,
// a[2]` loads it.
#pragma once
#include "softgpu/ptx/ir.h"

namespace softgpu::ptx {

// Replace each element by its address. Throw Refusal for an element of something that is no array.
void resolve_elements(Module& module);

}  // namespace softgpu::ptx
