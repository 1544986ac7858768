// Functions that kernels call.
#pragma once
#include <string>

#include "softgpu/emit/scope.h"

namespace softgpu::emit {

// Return whether the driver provides this function to every program.
bool is_built_in(const std::string& name);

// Return the C declaration of a called function, without semicolon. Its parameters arg0, arg1, …
// point to the bytes of results and parameters.
std::string prototype(const FunctionScope& scope);

}  // namespace softgpu::emit
