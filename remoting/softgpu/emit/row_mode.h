// Row mode of kernels that step through memory by the size of their accesses:
// `if (i < n) c[i] = f(a[i], b[i])`.
//
// All values that addresses and guards depend on are affine in the thread's x, except where
// arithmetic wraps. They are evaluated at the first, the second and the last thread of a row: if
// these three lie on a line, so do all others. Then one check of both ends covers all accesses, and
// the C compiler sees plain arrays.
#pragma once
#include "softgpu/emit/scope.h"

namespace softgpu::emit {

// Append run_row(), which runs a row of threads or returns 0 before any effect. Return false
// without an effect if the kernel has another form.
bool emit_row_function(FunctionScope& scope, Code& out);

}  // namespace softgpu::emit
