// Inlines called functions that contain barriers or cross-lane operations: lanes can wait for each
// other in the kernel's own frame only.
#pragma once
#include "softgpu/ptx/ir.h"

namespace softgpu::ptx {

// Return whether f, or a function that it calls by name, makes lanes wait for each other.
bool synchronises(const Module& m, const Function& f);

// Return f with every call of a function that synchronises replaced by its body. Throw Refusal for
// recursion, for more than 1024 such calls and for more than 1 Mi instructions.
Function inline_synchronising(const Module& m, const Function& f);

}  // namespace softgpu::ptx
