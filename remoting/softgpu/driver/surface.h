// Surface objects: arrays that kernels load and store by their coordinates.
//
// Thread safety: a surface does not change after its creation. Worker threads access its array;
// reductions are atomic.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "softgpu/device/cta.h"

namespace softgpu {

struct SurfaceState {
  CUDA_RESOURCE_DESC resource = {};  // an array with CUDA_ARRAY3D_SURFACE_LDST
};

// Execute suld, sust or sured: load to or store from access.elements values; there is room for
// four. Return 0 or the kind of a fault.
int access_surface(uint64_t handle, const SurfaceAccess& access, uint64_t* values);

}  // namespace softgpu
