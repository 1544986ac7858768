// Lockstep mode: the lanes of a warp advance together, block by block, so that they can exchange
// values and wait at barriers.
#pragma once
#include "softgpu/emit/scope.h"

namespace softgpu::emit {

// Append a kernel in lockstep: struct Warp, members(), run_warp() and softgpu_kernel().
void emit_lockstep_kernel(FunctionScope& scope, Code& out);

}  // namespace softgpu::emit
