#include "softgpu/driver/texels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "softgpu/driver/array.h"

namespace softgpu {

namespace {
constexpr uint64_t kMaxTexels = INT32_MAX;  // of a row or column

bool texels_of_array(const std::optional<ArrayState>& a, Texels& out) {
  if (!a) return false;
  uint64_t pitch = a->pitch().value();
  out = {a->base,
         pitch,
         a->descriptor.Width,
         a->rows(),
         a->descriptor.Format,
         a->descriptor.NumChannels,
         a->slices(),
         (CheckedSize(pitch) * a->rows()).value()};
  return true;
}

float half_value(uint16_t h) {
  _Float16 f;
  std::memcpy(&f, &h, 2);
  return (float)f;
}

// Return the linear intensity of a colour of sRGB.
float linear_intensity(float f) {
  return f <= 0.04045f ? f / 12.92f : std::pow((f + 0.055f) / 1.055f, 2.4f);
}

uint32_t bits_of(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  return bits;
}

// Return the bits of a border's channel: a float, or an integer of the format's range.
uint32_t border_channel(const Texels& t, const TexelFormat& f, unsigned c) {
  if (!f.border) return 0;
  bool integer = t.format != CU_AD_FORMAT_HALF && t.format != CU_AD_FORMAT_FLOAT;
  bool wide = channel_bytes(t.format) == 4;
  if (!integer || (f.as_float && !wide)) return bits_of(f.border[c]);
  double value = std::isnan(f.border[c]) ? 0 : (double)f.border[c];
  return (uint32_t)(int64_t)std::clamp(value, -2147483648.0, 4294967295.0);
}

// Return the raw bits of a channel as those of a 32-bit integer or of a float.
uint32_t converted(uint32_t raw, CUarray_format format, bool as_float, bool srgb) {
  switch (format) {
    case CU_AD_FORMAT_HALF: return bits_of(half_value((uint16_t)raw));
    case CU_AD_FORMAT_UNSIGNED_INT8: {
      if (!as_float) return raw;
      float f = (float)raw / 255.0f;
      return bits_of(srgb ? linear_intensity(f) : f);
    }
    case CU_AD_FORMAT_UNSIGNED_INT16: return as_float ? bits_of((float)raw / 65535.0f) : raw;
    case CU_AD_FORMAT_SIGNED_INT8: {
      if (!as_float) return (uint32_t)(int32_t)(int8_t)raw;
      return bits_of(std::max((float)(int8_t)raw / 127.0f, -1.0f));
    }
    case CU_AD_FORMAT_SIGNED_INT16: {
      if (!as_float) return (uint32_t)(int32_t)(int16_t)raw;
      return bits_of(std::max((float)(int16_t)raw / 32767.0f, -1.0f));
    }
    default: return raw;
  }
}
}  // namespace

CheckedSize Texels::row_bytes() const {
  return CheckedSize(width) * channel_bytes(format) * channels;
}

CheckedSize Texels::bytes() const {
  return (CheckedSize(depth) - 1) * slice + (CheckedSize(height) - 1) * pitch + row_bytes();
}

uint32_t levels_of(const CUDA_RESOURCE_DESC& r) {
  if (r.resType != CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) return 1;
  return std::max(level_count(r.res.mipmap.hMipmappedArray), 1u);
}

bool texels_of(const CUDA_RESOURCE_DESC& r, uint32_t level, Texels& out) {
  if (r.resType == CU_RESOURCE_TYPE_ARRAY) {
    if (!texels_of_array(array_of(r.res.array.hArray), out)) return false;
  } else if (r.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) {
    if (!texels_of_array(array_of(level_of(r.res.mipmap.hMipmappedArray, level)), out))
      return false;
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

uint32_t channel(const Texels& t, const TexelFormat& f, const int64_t at[3], unsigned c) {
  if (at[0] < 0 || at[1] < 0 || at[2] < 0) return border_channel(t, f, c);
  unsigned size = channel_bytes(t.format);
  CheckedSize row = CheckedSize(t.slice) * (uint64_t)at[2] + CheckedSize(t.pitch) * (uint64_t)at[1];
  const uint8_t* p =
      (const uint8_t*)(row + (CheckedSize((uint64_t)at[0]) * t.channels + c) * size + t.base)
          .value();
  uint32_t raw = 0;
  std::memcpy(&raw, p, size);
  return converted(raw, t.format, f.as_float, f.srgb && c < 3);
}

}  // namespace softgpu
