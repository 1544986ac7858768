#include "softgpu/driver/texture.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "checked_size.h"
#include "softgpu/driver/array.h"
#include "softgpu/driver/handles.h"

namespace softgpu {

constexpr uint64_t kMaxTexels = INT32_MAX;  // of a row or column

bool texels_of(const TextureState& t, Texels& out) {
  const auto& r = t.resource;
  if (r.resType == CU_RESOURCE_TYPE_ARRAY) {
    const ArrayState* a = array_of(r.res.array.hArray);
    if (!a) return false;
    out = {a->base,   a->pitch().value(),   a->descriptor.Width,
           a->rows(), a->descriptor.Format, a->descriptor.NumChannels};
  } else if (r.resType == CU_RESOURCE_TYPE_LINEAR) {
    uint64_t texel = volume(channel_bytes(r.res.linear.format), r.res.linear.numChannels, 1);
    out = {r.res.linear.devPtr,
           r.res.linear.sizeInBytes,
           texel ? r.res.linear.sizeInBytes / texel : 0,
           1,
           r.res.linear.format,
           r.res.linear.numChannels};
  } else if (r.resType == CU_RESOURCE_TYPE_PITCH2D) {
    out = {r.res.pitch2D.devPtr, r.res.pitch2D.pitchInBytes, r.res.pitch2D.width,
           r.res.pitch2D.height, r.res.pitch2D.format,       r.res.pitch2D.numChannels};
  }
  bool known =
      channel_bytes(out.format) && (out.channels == 1 || out.channels == 2 || out.channels == 4);
  return out.base && known && out.width && out.width <= kMaxTexels && out.height &&
         out.height <= kMaxTexels && out.row_bytes().within(out.pitch);
}

CheckedSize Texels::row_bytes() const {
  return CheckedSize(width) * channel_bytes(format) * channels;
}

CheckedSize Texels::bytes() const {
  return (CheckedSize(height) - 1) * pitch + row_bytes();
}

namespace {
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

float half_value(uint16_t h) {
  _Float16 f;
  std::memcpy(&f, &h, 2);
  return (float)f;
}

// Return one channel of one texel: its raw 32 bits, or a float in [0, 1] or [-1, 1].
uint32_t channel(const Texels& t, int64_t x, int64_t y, unsigned c, bool as_float) {
  if (x < 0 || y < 0) return 0;
  unsigned size = channel_bytes(t.format);
  const uint8_t* p = (const uint8_t*)(CheckedSize(t.pitch) * (uint64_t)y +
                                      (CheckedSize((uint64_t)x) * t.channels + c) * size + t.base)
                         .value();
  uint32_t raw = 0;
  std::memcpy(&raw, p, size);
  float f;
  switch (t.format) {
    case CU_AD_FORMAT_HALF: f = half_value((uint16_t)raw); break;
    case CU_AD_FORMAT_UNSIGNED_INT8:
      if (!as_float) return raw;
      f = (float)raw / 255.0f;
      break;
    case CU_AD_FORMAT_UNSIGNED_INT16:
      if (!as_float) return raw;
      f = (float)raw / 65535.0f;
      break;
    case CU_AD_FORMAT_SIGNED_INT8:
      if (!as_float) return (uint32_t)(int32_t)(int8_t)raw;
      f = std::max((float)(int8_t)raw / 127.0f, -1.0f);
      break;
    case CU_AD_FORMAT_SIGNED_INT16:
      if (!as_float) return (uint32_t)(int32_t)(int16_t)raw;
      f = std::max((float)(int16_t)raw / 32767.0f, -1.0f);
      break;
    default: return raw;
  }
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  return bits;
}

float as_float(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}

// Interpolate between texels. As on a GPU, weights have eight bits of fraction.
void interpolate(const Texels& t, const CUDA_TEXTURE_DESC& d, const double at[2], int dimensions,
                 bool as_floats, uint32_t out[4]) {
  double x = at[0] - 0.5, y = dimensions > 1 ? at[1] - 0.5 : 0;
  double fx = std::floor((x - std::floor(x)) * 256) / 256,
         fy = std::floor((y - std::floor(y)) * 256) / 256;
  int64_t x0 = texel_index(x), y0 = texel_index(y), width = (int64_t)t.width,
          height = (int64_t)t.height;
  for (unsigned c = 0; c < t.channels && c < 4; ++c) {
    double sum = 0;
    for (int j = 0; j < (dimensions > 1 ? 2 : 1); ++j)
      for (int i = 0; i < 2; ++i) {
        double weight = (i ? fx : 1 - fx) * (dimensions > 1 ? (j ? fy : 1 - fy) : 1);
        sum += weight * (double)as_float(channel(
                            t, wrap_coordinate(x0 + i, width, d.addressMode[0]),
                            dimensions > 1 ? wrap_coordinate(y0 + j, height, d.addressMode[1]) : 0,
                            c, as_floats));
      }
    float f = (float)sum;
    std::memcpy(&out[c], &f, 4);
  }
}

}  // namespace

bool sample_texture(uint64_t handle, int dimensions, const double* at, uint32_t out[4]) {
  auto* state = (TextureState*)handle;
  Texels t;
  if (!handle || !is_live(state) || !texels_of(*state, t)) return false;
  const CUDA_TEXTURE_DESC& d = state->description;
  bool floats = !(d.flags & CU_TRSF_READ_AS_INTEGER),
       normalized = d.flags & CU_TRSF_NORMALIZED_COORDINATES;
  double p[2] = {at[0], dimensions > 1 ? at[1] : 0};
  if (normalized) {
    p[0] *= (double)t.width;
    p[1] *= (double)t.height;
  }
  out[0] = out[1] = out[2] = out[3] = 0;
  if (d.filterMode == CU_TR_FILTER_MODE_LINEAR &&
      state->resource.resType != CU_RESOURCE_TYPE_LINEAR) {
    interpolate(t, d, p, dimensions, true, out);
    return true;
  }
  int64_t x = wrap_coordinate(texel_index(p[0]), (int64_t)t.width, d.addressMode[0]);
  int64_t y =
      dimensions > 1 ? wrap_coordinate(texel_index(p[1]), (int64_t)t.height, d.addressMode[1]) : 0;
  for (unsigned c = 0; c < t.channels && c < 4; ++c) out[c] = channel(t, x, y, c, floats);
  return true;
}

}  // namespace softgpu
