#include "softgpu/driver/cube.h"

#include <cmath>

namespace softgpu {

uint64_t cube_face(const double direction[3], double place[3]) {
  double x = direction[0], y = direction[1], z = direction[2], s, t;
  double ax = std::fabs(x), ay = std::fabs(y), az = std::fabs(z), major;
  uint64_t face;
  if (ax >= ay && ax >= az) {
    face = x >= 0 ? 0 : 1;
    major = ax;
    s = x >= 0 ? -z : z;
    t = -y;
  } else if (ay >= az) {
    face = y >= 0 ? 2 : 3;
    major = ay;
    s = x;
    t = y >= 0 ? z : -z;
  } else {
    face = z >= 0 ? 4 : 5;
    major = az;
    s = z >= 0 ? x : -x;
    t = -y;
  }
  place[0] = major > 0 ? (s / major + 1) / 2 : 0;
  place[1] = major > 0 ? (t / major + 1) / 2 : 0;
  place[2] = 0;
  return face;
}

}  // namespace softgpu
