// Serial mode: basic blocks as C labels, run by one thread from start to end.
#pragma once
#include "softgpu/emit/scope.h"

namespace softgpu::emit {

// Append the definition of a called function.
void emit_called_function(FunctionScope& scope, Code& out);

// Append a kernel whose threads run one after the other, or row by row where that is possible.
void emit_serial_kernel(FunctionScope& scope, Code& out);

// Append brx.idx: a switch with one jump for each target, made by `jump` from a block number.
void emit_indexed_branch(FunctionScope& scope, const ptx::Instruction& ins, Code& out,
                         void (*jump)(Code& out, int block));

}  // namespace softgpu::emit
