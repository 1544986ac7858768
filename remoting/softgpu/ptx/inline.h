// Copies called functions that contain barriers or cross-lane operations into their caller: lanes
// can only meet in one frame.
#pragma once
#include "softgpu/ptx/ir.h"

namespace softgpu::ptx {

// True when f or a function that it calls by name makes lanes wait for each other.
bool synchronises(const Module& m, const Function& f);

// f with every call to a function that synchronises replaced by its body. Throws Refusal on
// recursion and past 1 Mi instructions.
Function inline_synchronising(const Module& m, const Function& f);

}  // namespace softgpu::ptx
