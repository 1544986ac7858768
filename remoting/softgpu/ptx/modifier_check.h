// Combinations of modifiers and constants that the PTX manual rules out.
#pragma once
#include "softgpu/ptx/ir.h"

namespace softgpu::ptx {

// Throw Refusal if the modifiers of an instruction do not fit together, or a constant is out of its
// range.
void check_modifiers(const Instruction& ins);

}  // namespace softgpu::ptx
