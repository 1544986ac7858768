// Directions of cube maps.
//
// Thread safety: any thread.
#pragma once
#include <cstdint>

namespace softgpu {

// Return the face from 0 to 5 that a direction meets, and the place on it in [0, 1] x [0, 1], as in
// the CUDA programming guide's section on cubemap textures.
uint64_t cube_face(const double direction[3], double place[3]);
// Get the change of the place when the direction changes by `change`, on the same face.
void cube_derivative(const double direction[3], const double change[3], double place[3]);

}  // namespace softgpu
