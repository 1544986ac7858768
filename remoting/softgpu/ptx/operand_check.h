// The operands of instructions: their number, kinds and types, as the PTX manual gives them.
#pragma once
#include "softgpu/ptx/ir.h"

namespace softgpu::ptx {

// Throw Refusal for the first instruction of a function that has an operand of a wrong kind or
// type, or a wrong number of them. Instructions without a row in the table of operand_rows.cc are
// not checked.
void check_operands(const Module& module, const Function& f);

}  // namespace softgpu::ptx
