// C that is part of every compiled kernel. Generated at build time from device/cta.h and
// device/runtime.
#pragma once

namespace softgpu::emit {

extern const char* const kKernelRuntime;  // types and functions, before everything else
extern const char* const kMatrix;         // for kernels with matrix instructions
extern const char* const kSerialLoop;     // thread loops of serial mode
extern const char* const kWarpSchedule;   // lockstep: choice of lanes; behind struct Warp
extern const char* const kWarpLoop;       // lockstep: barriers and the loop over warps

}  // namespace softgpu::emit
