// The C text that every compiled kernel begins and ends with; made at build time from device/*.h.
#pragma once

namespace softgpu::emit {
extern const char* const kKernelRuntime;
extern const char* const kMatrix;
extern const char* const kThreadLoop;
extern const char* const kWarpMachine;
extern const char* const kWarpLoop;
}  // namespace softgpu::emit
