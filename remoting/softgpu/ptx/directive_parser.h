// Directives without an effect on the software GPU: .file, .loc and .pragma.
#pragma once
#include "softgpu/ptx/token_cursor.h"

namespace softgpu::ptx {

// Advance over a directive at the cursor. Throw Refusal if it is malformed.
void skip_directive(TokenCursor& cursor);

}  // namespace softgpu::ptx
