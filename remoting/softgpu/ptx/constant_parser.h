// Constant expressions: integers of 64 bits with C's operators, and sums of floats.
#pragma once
#include "softgpu/ptx/ir.h"
#include "softgpu/ptx/token_cursor.h"

namespace softgpu::ptx {

// Return whether a constant expression can begin at the cursor: a number or a sign.
bool begins_constant(const TokenCursor& cursor);
// Parse a constant expression. The result has the kind integer, real32 or real64. Throw Refusal if
// it is malformed, divides by zero, or is nested more than 64 levels deep.
Operand parse_constant(TokenCursor& cursor);
// Parse an integer expression that ends at a comma, a bracket or a semicolon.
int64_t parse_integer(TokenCursor& cursor);

}  // namespace softgpu::ptx
