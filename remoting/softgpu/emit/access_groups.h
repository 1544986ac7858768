// Accesses of one basic block through the same register at constant offsets. All of them happen, so
// one check of their whole range covers all; see access.h.
#pragma once
#include <map>

#include "softgpu/emit/scope.h"

namespace softgpu::emit {

// Find the groups of a block and register their accesses in scope.covered. Return the checks, by
// the index of the instruction that they precede. `counter` numbers the groups of the function.
std::map<size_t, Code> group_accesses(FunctionScope& scope, const ptx::Block& block, int& counter);

}  // namespace softgpu::emit
