// Names that a module uses and that neither it nor the driver defines.
#pragma once
#include <set>
#include <string>

#include "softgpu/ptx/ir.h"

namespace softgpu::emit {

// Return the undefined names that functions use, or whose addresses variables hold. Declarations
// that nothing uses do not count.
std::set<std::string> undefined_names(const ptx::Module& module);

}  // namespace softgpu::emit
