// Instructions that several lanes of a warp execute together. In the C, `g` is the set of lanes of
// one member mask and `l` a lane.
#pragma once
#include "softgpu/emit/scope.h"

namespace softgpu::emit {

// Return the member mask of a sync instruction as a C expression for lane l.
std::string member_mask(const FunctionScope& scope, const ptx::Instruction& ins);

// Append a sync instruction for the lanes of `g`. Throw ptx::Refusal if it is not supported.
void emit_exchange(FunctionScope& scope, const ptx::Instruction& ins, Code& out);

// matrix.cc
void emit_mma(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
void emit_move_matrices(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
void emit_transpose_matrix(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
// scaled_matrix.cc
void emit_scaled_mma(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
// wmma.cc
void emit_wmma(FunctionScope& scope, const ptx::Instruction& ins, Code& out);

}  // namespace softgpu::emit
