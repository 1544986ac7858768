#include "softgpu/driver/cube.h"

#include <cmath>

namespace softgpu {

namespace {
// The coordinates of a vector as a face has them: away from the centre, and along its two sides.
struct OnFace {
  double major, s, t;
};

OnFace coordinates_on(uint64_t face, const double v[3]) {
  double x = v[0], y = v[1], z = v[2];
  switch (face) {
    case 0: return {x, -z, -y};
    case 1: return {-x, z, -y};
    case 2: return {y, x, z};
    case 3: return {-y, x, -z};
    case 4: return {z, x, -y};
    default: return {-z, -x, -y};
  }
}

uint64_t face_of(const double v[3]) {
  double ax = std::fabs(v[0]), ay = std::fabs(v[1]), az = std::fabs(v[2]);
  if (ax >= ay && ax >= az) return v[0] >= 0 ? 0 : 1;
  if (ay >= az) return v[1] >= 0 ? 2 : 3;
  return v[2] >= 0 ? 4 : 5;
}
}  // namespace

uint64_t cube_face(const double direction[3], double place[3]) {
  uint64_t face = face_of(direction);
  OnFace at = coordinates_on(face, direction);
  place[0] = at.major > 0 ? (at.s / at.major + 1) / 2 : 0;
  place[1] = at.major > 0 ? (at.t / at.major + 1) / 2 : 0;
  place[2] = 0;
  return face;
}

void cube_derivative(const double direction[3], const double change[3], double place[3]) {
  uint64_t face = face_of(direction);
  OnFace at = coordinates_on(face, direction), by = coordinates_on(face, change);
  double square = 2 * at.major * at.major;
  place[0] = square > 0 ? (by.s * at.major - at.s * by.major) / square : 0;
  place[1] = square > 0 ? (by.t * at.major - at.t * by.major) / square : 0;
  place[2] = 0;
}

}  // namespace softgpu
