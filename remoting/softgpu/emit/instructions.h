// One function for each family of instructions. Each appends the C of one instruction for the
// current thread or lane, and throws ptx::Refusal for forms that are not supported.
#pragma once
#include "softgpu/emit/scope.h"

namespace softgpu::emit {

// Append the C of any instruction but branches, exits and those that involve several lanes.
void emit_instruction(FunctionScope& scope, const ptx::Instruction& ins, Code& out);

void emit_arithmetic(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
void emit_atomic(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
void emit_bit_field(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
void emit_bulk_copy(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
void emit_call(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
void emit_compare(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
void emit_convert(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
void emit_convert_address(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
void emit_copy_async(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
void emit_dot_product(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
void emit_lop3(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
void emit_mbarrier(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
void emit_memory_access(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
void emit_move(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
void emit_permute(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
void emit_query(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
void emit_select(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
void emit_surface(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
void emit_tensor_map(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
void emit_test_address(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
void emit_test_property(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
void emit_texture(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
void emit_video_difference(FunctionScope& scope, const ptx::Instruction& ins, Code& out);

// Append a conversion to or from pairs of 8-bit floats. Return false if `ins` is none.
bool emit_convert_small(FunctionScope& scope, const ptx::Instruction& ins, Code& out);
// Append a conversion to or from pairs of 8-bit exponents. Return false if `ins` is none.
bool emit_convert_e8m0(FunctionScope& scope, const ptx::Instruction& ins, Code& out);

}  // namespace softgpu::emit
