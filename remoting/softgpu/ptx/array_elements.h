// Operands that name an element of an array: `mov.u64 %rd, a[2]` is its address, `ld.global.u32 %r,
// a[2]` loads it.
#pragma once
#include "softgpu/ptx/ir.h"

namespace softgpu::ptx {

// Replace each element by its address, by the variables of the module that are declared before the
// function: its text may declare a variable with another type than the text that defines it. Throw
// Refusal for an element of something that is no array.
void resolve_elements(Function& f, const std::map<std::string, Variable>& declared);

}  // namespace softgpu::ptx
