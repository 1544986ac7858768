// Directions of cube maps.
//
// Thread safety: any thread.
#pragma once
#include <cstdint>

namespace softgpu {

// Return the face from 0 to 5 that a direction meets, and the place on it in [0, 1] x [0, 1], as in
// the CUDA programming guide's section on cubemap textures.
uint64_t cube_face(const double direction[3], double place[3]);

}  // namespace softgpu
