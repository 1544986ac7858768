// Functions that kernels call.
#pragma once
#include <string>

#include "softgpu/emit/scope.h"

namespace softgpu::emit {

// Return the C declaration of a called function, without semicolon. Its parameters arg0, arg1, …
// point to the bytes of results and parameters.
std::string prototype(const FunctionScope& scope);

}  // namespace softgpu::emit
