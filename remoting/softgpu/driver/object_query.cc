#include "softgpu/driver/object_query.h"

#include <algorithm>

#include "softgpu/driver/array.h"
#include "softgpu/driver/handles.h"
#include "softgpu/driver/surface.h"
#include "softgpu/driver/texels.h"
#include "softgpu/driver/texture.h"

namespace softgpu {

namespace {
// PTX has the numbers of OpenCL for channels.
constexpr uint32_t kOrderR = 0x10b0, kOrderRg = 0x10b2, kOrderRgba = 0x10b5;
constexpr uint32_t kSnorm8 = 0x10d0, kSnorm16 = 0x10d1, kUnorm8 = 0x10d2, kUnorm16 = 0x10d3,
                   kSigned8 = 0x10d7, kSigned16 = 0x10d8, kSigned32 = 0x10d9, kUnsigned8 = 0x10da,
                   kUnsigned16 = 0x10db, kUnsigned32 = 0x10dc, kHalf = 0x10dd, kFloat = 0x10de;

uint32_t channel_type(CUarray_format format, bool normalized) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8: return normalized ? kUnorm8 : kUnsigned8;
    case CU_AD_FORMAT_UNSIGNED_INT16: return normalized ? kUnorm16 : kUnsigned16;
    case CU_AD_FORMAT_UNSIGNED_INT32: return kUnsigned32;
    case CU_AD_FORMAT_SIGNED_INT8: return normalized ? kSnorm8 : kSigned8;
    case CU_AD_FORMAT_SIGNED_INT16: return normalized ? kSnorm16 : kSigned16;
    case CU_AD_FORMAT_SIGNED_INT32: return kSigned32;
    case CU_AD_FORMAT_HALF: return kHalf;
    default: return kFloat;
  }
}

uint32_t channel_order(unsigned channels) {
  return channels == 1 ? kOrderR : channels == 2 ? kOrderRg : kOrderRgba;
}

// PTX: wrap, mirror, clamp to an OpenGL border, clamp to the edge, clamp to a border.
uint32_t address_mode(CUaddress_mode mode) {
  switch (mode) {
    case CU_TR_ADDRESS_MODE_WRAP: return 0;
    case CU_TR_ADDRESS_MODE_MIRROR: return 1;
    case CU_TR_ADDRESS_MODE_CLAMP: return 3;
    default: return 4;
  }
}

// The attributes of an array, or of linear or pitched memory.
struct Attributes {
  Texels texels;
  bool layered = false, mipmapped = false;
  uint32_t levels = 1;
};

bool attributes_of(const CUDA_RESOURCE_DESC& r, int32_t level, Attributes& out) {
  out.levels = levels_of(r);
  out.mipmapped = r.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  auto last = (int32_t)out.levels - 1;
  if (!texels_of(r, (uint32_t)std::clamp(level, 0, last), out.texels)) return false;
  if (r.resType != CU_RESOURCE_TYPE_ARRAY && !out.mipmapped) return true;
  auto array =
      array_of(out.mipmapped ? level_of(r.res.mipmap.hMipmappedArray, 0) : r.res.array.hArray);
  if (!array) return false;
  out.layered = array->descriptor.Flags & CUDA_ARRAY3D_LAYERED;
  return true;
}

uint32_t attribute_of(const Attributes& a, uint8_t attribute, bool normalized) {
  switch (attribute) {
    case QUERY_WIDTH: return (uint32_t)a.texels.width;
    case QUERY_HEIGHT: return (uint32_t)a.texels.height;
    case QUERY_DEPTH: return a.layered ? 1 : (uint32_t)a.texels.depth;
    case QUERY_CHANNEL_TYPE: return channel_type(a.texels.format, normalized);
    case QUERY_CHANNEL_ORDER: return channel_order(a.texels.channels);
    case QUERY_LAYERS: return a.layered ? (uint32_t)a.texels.depth : 0;
    case QUERY_LEVELS: return a.mipmapped ? a.levels : 0;
    default: return 0;  // no array has several samples or a linear layout
  }
}

uint32_t texture_attribute(const TextureState& s, const Attributes& a, uint8_t attribute) {
  const CUDA_TEXTURE_DESC& d = s.description;
  switch (attribute) {
    case QUERY_NORMALIZED: return d.flags & CU_TRSF_NORMALIZED_COORDINATES ? 1 : 0;
    case QUERY_FILTER: return d.filterMode == CU_TR_FILTER_MODE_LINEAR ? 1 : 0;
    case QUERY_ADDRESS_0: return address_mode(d.addressMode[0]);
    case QUERY_ADDRESS_1: return address_mode(d.addressMode[1]);
    case QUERY_ADDRESS_2: return address_mode(d.addressMode[2]);
    default: return attribute_of(a, attribute, !(d.flags & CU_TRSF_READ_AS_INTEGER));
  }
}
}  // namespace

bool query_object(uint64_t handle, const ObjectQuery& q, uint32_t& value) {
  Attributes a;
  if (!handle) return false;
  if (q.of_surface) {
    auto s = copy_of((const SurfaceState*)handle);
    if (!s || !attributes_of(s->resource, 0, a)) return false;
    value = attribute_of(a, q.attribute, false);
    return true;
  }
  auto s = copy_of((const TextureState*)handle);
  if (!s || !attributes_of(s->resource, q.level, a)) return false;
  value = texture_attribute(*s, a, q.attribute);
  return true;
}

}  // namespace softgpu
