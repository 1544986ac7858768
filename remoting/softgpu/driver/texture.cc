#include "softgpu/driver/texture.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "softgpu/driver/array.h"
#include "softgpu/driver/cube.h"
#include "softgpu/driver/handles.h"
#include "softgpu/driver/memory.h"
#include "softgpu/driver/texels.h"

namespace softgpu {

namespace {
constexpr unsigned kSupportedFlags =
    CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB;

// Return a coordinate in texels, or -1 for the border. Addressing modes as in the CUDA programming
// guide's appendix on texture fetching.
int64_t wrap_coordinate(int64_t i, int64_t n, CUaddress_mode mode) {
  if (i >= 0 && i < n) return i;
  int64_t period = n + n;  // n is at most kMaxTexels
  switch (mode) {
    case CU_TR_ADDRESS_MODE_WRAP: return ((i % n) + n) % n;
    case CU_TR_ADDRESS_MODE_MIRROR: {
      int64_t m = ((i % period) + period) % period;
      return m < n ? m : period - 1 - m;
    }
    case CU_TR_ADDRESS_MODE_CLAMP: return i < 0 ? 0 : n - 1;
    default: return -1;
  }
}

// Coordinates of kernels may be infinite or no number.
int64_t texel_index(double coordinate) {
  constexpr double kFar = 1ll << 40;
  if (std::isnan(coordinate)) return 0;
  return (int64_t)std::floor(std::clamp(coordinate, -kFar, kFar));
}

// As on a GPU, weights have eight bits of fraction.
double weight_of(double position) {
  double fraction = position - std::floor(position);
  return std::isfinite(position) ? std::floor(fraction * 256) / 256 : 0;
}

float as_float(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}

uint32_t bits_of(double value) {
  float f = (float)value;
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  return bits;
}

// A read of one level: `at` in texels, in `dimensions` dimensions of the slice.
struct LevelRead {
  const Texels& texels;
  const CUDA_TEXTURE_DESC& description;
  TexelFormat format;
  int dimensions = 1;
  double at[3] = {0, 0, 0};
  int64_t slice = 0;  // of one or two dimensions
  bool in_cube = false;

  int64_t wrapped(int dimension, int64_t i) const {
    const uint64_t sizes[3] = {texels.width, texels.height, texels.depth};
    CUaddress_mode mode = description.addressMode[dimension];
    bool normalized = description.flags & CU_TRSF_NORMALIZED_COORDINATES;
    bool periodic = mode == CU_TR_ADDRESS_MODE_WRAP || mode == CU_TR_ADDRESS_MODE_MIRROR;
    if (in_cube || (periodic && !normalized)) mode = CU_TR_ADDRESS_MODE_CLAMP;
    return wrap_coordinate(i, (int64_t)sizes[dimension], mode);
  }
  // Return a channel of the texel at `corner` of those around the position: bit n of the corner is
  // the neighbour in dimension n.
  uint32_t value(const int64_t first[3], int corner, unsigned c) const {
    int64_t texel[3] = {0, 0, slice};
    for (int n = 0; n < dimensions; ++n) texel[n] = wrapped(n, first[n] + ((corner >> n) & 1));
    return channel(texels, format, texel, c);
  }
  unsigned channels() const { return std::min(texels.channels, 4u); }

  void point(uint32_t out[4]) const {
    const int64_t first[3] = {texel_index(at[0]), texel_index(at[1]), texel_index(at[2])};
    for (unsigned c = 0; c < channels(); ++c) out[c] = value(first, 0, c);
  }
  void between(uint32_t out[4]) const {
    int64_t first[3] = {0, 0, 0};
    double weight[3] = {0, 0, 0};
    for (int n = 0; n < dimensions; ++n) {
      first[n] = texel_index(at[n] - 0.5);
      weight[n] = weight_of(at[n] - 0.5);
    }
    for (unsigned c = 0; c < channels(); ++c) {
      double sum = 0;
      for (int corner = 0; corner < 1 << dimensions; ++corner) {
        double share = 1;
        for (int n = 0; n < dimensions; ++n) share *= (corner >> n) & 1 ? weight[n] : 1 - weight[n];
        sum += share * (double)as_float(value(first, corner, c));
      }
      out[c] = bits_of(sum);
    }
  }
  // One channel of the four texels around the position, counterclockwise from the lower left.
  void gather(unsigned c, uint32_t out[4]) const {
    const int64_t first[3] = {texel_index(at[0] - 0.5), texel_index(at[1] - 0.5), 0};
    const int corners[4] = {2, 3, 1, 0};
    for (int i = 0; i < 4; ++i) out[i] = c < channels() ? value(first, corners[i], c) : 0;
  }
};

void read_level(const TextureState& s, const Texels& t, const TextureRead& read, uint32_t out[4]) {
  const CUDA_TEXTURE_DESC& d = s.description;
  bool floats = !(d.flags & CU_TRSF_READ_AS_INTEGER);
  LevelRead level{t, d, {floats, (d.flags & CU_TRSF_SRGB) != 0, d.borderColor}};
  level.dimensions = read.dimensions;
  std::copy_n(read.where, 3, level.at);
  uint64_t layer = read.layered ? read.layer : 0;
  if (read.cube) {
    level.in_cube = true;
    // NOLINTNEXTLINE(custom-unchecked-sum,custom-unchecked-product): a layer has 32 bits
    layer = layer * 6 + cube_face(read.where, level.at);
  }
  level.slice = (int64_t)std::min<uint64_t>(layer, t.depth - 1);
  if ((d.flags & CU_TRSF_NORMALIZED_COORDINATES) || read.cube) {
    level.at[0] *= (double)t.width;
    level.at[1] *= (double)t.height;
    level.at[2] *= (double)t.depth;
  }
  for (int n = 0; n < read.dimensions; ++n) level.at[n] += read.offset[n];
  out[0] = out[1] = out[2] = out[3] = 0;
  bool linear =
      d.filterMode == CU_TR_FILTER_MODE_LINEAR && s.resource.resType != CU_RESOURCE_TYPE_LINEAR;
  if (read.gather)
    level.gather(read.component, out);
  else if (linear)
    level.between(out);
  else
    level.point(out);
}

// Return the level that fits derivatives of the coordinates: texels lie about one step apart.
double level_of_gradient(const TextureRead& read, const Texels& t, bool normalized) {
  const double sizes[3] = {(double)t.width, (double)t.height, (double)t.depth};
  double squares[2] = {0, 0}, across[3], along[3];
  std::copy_n(read.across, 3, across);
  std::copy_n(read.along, 3, along);
  if (read.cube) {
    cube_derivative(read.where, read.across, across);
    cube_derivative(read.where, read.along, along);
  }
  for (int n = 0; n < read.dimensions; ++n) {
    double size = normalized || read.cube ? sizes[n] : 1;
    squares[0] += across[n] * size * across[n] * size;
    squares[1] += along[n] * size * along[n] * size;
  }
  return std::log2(std::max(squares[0], squares[1])) / 2;
}

// Return the position between the levels, from 0 to the last one.
double chosen_level(const TextureState& s, const TextureRead& read, const Texels& largest,
                    uint32_t levels) {
  if (read.mode == TEXTURE_BASE || levels < 2) return 0;
  const CUDA_TEXTURE_DESC& d = s.description;
  double level = read.level;
  if (read.mode == TEXTURE_GRADIENT)
    level = level_of_gradient(read, largest, d.flags & CU_TRSF_NORMALIZED_COORDINATES);
  level += (double)d.mipmapLevelBias;
  if (std::isnan(level)) level = 0;
  level = std::min(std::max(level, (double)d.minMipmapLevelClamp), (double)d.maxMipmapLevelClamp);
  return std::clamp(level, 0.0, (double)(levels - 1));
}

bool is_integer(CUarray_format f) {
  return f != CU_AD_FORMAT_HALF && f != CU_AD_FORMAT_FLOAT;
}
}  // namespace

CUresult check_texture(const TextureState& s) {
  const CUDA_TEXTURE_DESC& d = s.description;
  if (d.flags & ~kSupportedFlags) return CUDA_ERROR_NOT_SUPPORTED;
  Texels t;
  if (!texels_of(s.resource, 0, t)) return CUDA_ERROR_INVALID_VALUE;
  bool in_array = s.resource.resType == CU_RESOURCE_TYPE_ARRAY ||
                  s.resource.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  CheckedSize bytes = t.bytes();
  if (!in_array && !(bytes.valid() && valid_device_range(t.base, bytes.value())))
    return CUDA_ERROR_INVALID_VALUE;
  bool integers =
      is_integer(t.format) && (channel_bytes(t.format) == 4 || (d.flags & CU_TRSF_READ_AS_INTEGER));
  bool linear =
      d.filterMode == CU_TR_FILTER_MODE_LINEAR && s.resource.resType != CU_RESOURCE_TYPE_LINEAR;
  return linear && integers ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

bool sample_texture(uint64_t handle, const TextureRead& read, uint32_t out[4]) {
  auto s = copy_of((const TextureState*)handle);
  Texels t;
  if (!s || !texels_of(s->resource, 0, t)) return false;
  double level = chosen_level(*s, read, t, levels_of(s->resource));
  bool floats = !is_integer(t.format) ||
                (!(s->description.flags & CU_TRSF_READ_AS_INTEGER) && channel_bytes(t.format) < 4);
  if (s->description.mipmapFilterMode != CU_TR_FILTER_MODE_LINEAR || !floats) {
    if (!texels_of(s->resource, (uint32_t)std::floor(level + 0.5), t)) return false;
    read_level(*s, t, read, out);
    return true;
  }
  auto lower = (uint32_t)std::floor(level);
  double weight = weight_of(level);
  if (!texels_of(s->resource, lower, t)) return false;
  read_level(*s, t, read, out);
  if (weight == 0 || !texels_of(s->resource, lower + 1, t)) return true;
  uint32_t next[4];
  read_level(*s, t, read, next);
  for (int c = 0; c < 4; ++c)
    out[c] = bits_of((1 - weight) * (double)as_float(out[c]) + weight * (double)as_float(next[c]));
  return true;
}

}  // namespace softgpu
