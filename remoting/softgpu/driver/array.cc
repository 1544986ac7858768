// Arrays and texture objects of one and two dimensions, read at points or between them.
#include "softgpu/driver/array.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace softgpu {

namespace {
struct TextureState {
  CUDA_RESOURCE_DESC resource = {};
  CUDA_TEXTURE_DESC description = {};
};

unsigned bytes_of(CUarray_format f) {
  switch (f) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8: return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF: return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: return 4;
    default: return 0;
  }
}

// The texels that a texture reads, whatever they lie in.
struct Texels {
  uint64_t base = 0, pitch = 0, width = 0, height = 1;
  CUarray_format format = CU_AD_FORMAT_FLOAT;
  unsigned channels = 1;
};

bool texels_of(const TextureState& t, Texels& out) {
  const auto& r = t.resource;
  if (r.resType == CU_RESOURCE_TYPE_ARRAY) {
    const ArrayState* a = array_of(r.res.array.hArray);
    if (!a) return false;
    out = {a->base,   a->pitch(),           a->descriptor.Width,
           a->rows(), a->descriptor.Format, a->descriptor.NumChannels};
  } else if (r.resType == CU_RESOURCE_TYPE_LINEAR) {
    uint64_t texel = (uint64_t)bytes_of(r.res.linear.format) * r.res.linear.numChannels;
    out = {r.res.linear.devPtr,
           r.res.linear.sizeInBytes,
           texel ? r.res.linear.sizeInBytes / texel : 0,
           1,
           r.res.linear.format,
           r.res.linear.numChannels};
  } else
    out = {r.res.pitch2D.devPtr, r.res.pitch2D.pitchInBytes, r.res.pitch2D.width,
           r.res.pitch2D.height, r.res.pitch2D.format,       r.res.pitch2D.numChannels};
  return out.base && out.width && bytes_of(out.format);
}

// A coordinate in texels, or -1 where the border is. Addressing modes as in the CUDA programming
// guide's appendix on texture fetching.
int64_t place(int64_t i, int64_t n, CUaddress_mode mode) {
  if (i >= 0 && i < n) return i;
  switch (mode) {
    case CU_TR_ADDRESS_MODE_WRAP: return ((i % n) + n) % n;
    case CU_TR_ADDRESS_MODE_MIRROR: {
      int64_t m = ((i % (2 * n)) + 2 * n) % (2 * n);
      return m < n ? m : 2 * n - 1 - m;
    }
    case CU_TR_ADDRESS_MODE_CLAMP: return i < 0 ? 0 : n - 1;
    default: return -1;
  }
}

float half_value(uint16_t h) {
  _Float16 f;
  std::memcpy(&f, &h, 2);
  return (float)f;
}

// One channel of one texel: its raw 32 bits, or as a float in [0, 1] or [-1, 1].
uint32_t channel(const Texels& t, int64_t x, int64_t y, unsigned c, bool as_float) {
  if (x < 0 || y < 0) return 0;
  unsigned size = bytes_of(t.format);
  const uint8_t* p =
      (const uint8_t*)(t.base + (uint64_t)y * t.pitch + ((uint64_t)x * t.channels + c) * size);
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
}  // namespace

unsigned ArrayState::element_bytes() const {
  return bytes_of(descriptor.Format);
}

const ArrayState* array_of(CUarray a) {
  return a && known(a) ? (const ArrayState*)a : nullptr;
}

// Between texels the weights have eight bits of fraction, as the hardware's have.
static void between(const Texels& t, const CUDA_TEXTURE_DESC& d, const double at[2], int dimensions,
                    bool as_floats, uint32_t out[4]) {
  double x = at[0] - 0.5, y = dimensions > 1 ? at[1] - 0.5 : 0;
  double fx = std::floor((x - std::floor(x)) * 256) / 256,
         fy = std::floor((y - std::floor(y)) * 256) / 256;
  int64_t x0 = (int64_t)std::floor(x), y0 = (int64_t)std::floor(y), width = (int64_t)t.width,
          height = (int64_t)t.height;
  for (unsigned c = 0; c < t.channels && c < 4; ++c) {
    double sum = 0;
    for (int j = 0; j < (dimensions > 1 ? 2 : 1); ++j)
      for (int i = 0; i < 2; ++i) {
        double weight = (i ? fx : 1 - fx) * (dimensions > 1 ? (j ? fy : 1 - fy) : 1);
        sum += weight *
               (double)as_float(channel(
                   t, place(x0 + i, width, d.addressMode[0]),
                   dimensions > 1 ? place(y0 + j, height, d.addressMode[1]) : 0, c, as_floats));
      }
    float f = (float)sum;
    std::memcpy(&out[c], &f, 4);
  }
}

bool sample_texture(uint64_t handle, int dimensions, const double* at, uint32_t out[4]) {
  auto* state = (TextureState*)handle;
  Texels t;
  if (!handle || !known(state) || !texels_of(*state, t)) return false;
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
    between(t, d, p, dimensions, true, out);
    return true;
  }
  int64_t x = place((int64_t)std::floor(p[0]), (int64_t)t.width, d.addressMode[0]);
  int64_t y =
      dimensions > 1 ? place((int64_t)std::floor(p[1]), (int64_t)t.height, d.addressMode[1]) : 0;
  for (unsigned c = 0; c < t.channels && c < 4; ++c) out[c] = channel(t, x, y, c, floats);
  return true;
}

}  // namespace softgpu

using namespace softgpu;

#define CURRENT(c) \
  Context* c;      \
  if (CUresult r = current_context(c)) return r

API CUresult cuArray3DCreate(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* d) {
  CURRENT(c);
  if (!out || !d || !d->Width || !bytes_of(d->Format) ||
      (d->NumChannels != 1 && d->NumChannels != 2 && d->NumChannels != 4))
    return CUDA_ERROR_INVALID_VALUE;
  if (d->Flags & ~(unsigned)(CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_TEXTURE_GATHER))
    return CUDA_ERROR_NOT_SUPPORTED;
  auto a = std::make_unique<ArrayState>();
  a->descriptor = *d;
  a->ordinal = c->device->ordinal;
  if (a->rows() > 65536 || a->slices() > 16384 || a->pitch() > (1u << 21) * 16ull)
    return CUDA_ERROR_INVALID_VALUE;
  a->bytes = (a->pitch() * a->rows() * a->slices() + 4095) & ~4095ull;
  if (!c->device->engine->charge(a->bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  a->base = map_private(a->bytes);
  if (!a->base) {
    c->device->engine->refund(a->bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  remember(a.get());
  *out = (CUarray)a.release();
  return CUDA_SUCCESS;
}

API CUresult cuArrayCreate(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* d) {
  if (!d) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR full = {d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
  return cuArray3DCreate(out, &full);
}

API CUresult cuArrayDestroy(CUarray h) {
  CURRENT(c);
  if (CUresult r = wait_for_context(c)) return r;
  auto* a = (ArrayState*)h;
  if (!a || !forget(a)) return CUDA_ERROR_INVALID_HANDLE;
  unmap_private(a->base, a->bytes);
  device_at(a->ordinal)->engine->refund(a->bytes);
  delete a;
  return CUDA_SUCCESS;
}

API CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR* d, CUarray h) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  auto* a = array_of(h);
  if (!d || !a) return CUDA_ERROR_INVALID_HANDLE;
  *d = a->descriptor;
  return CUDA_SUCCESS;
}
API CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR* d, CUarray h) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  auto* a = array_of(h);
  if (!d || !a) return CUDA_ERROR_INVALID_HANDLE;
  *d = {a->descriptor.Width, a->descriptor.Height, a->descriptor.Format, a->descriptor.NumChannels};
  return CUDA_SUCCESS;
}

API CUresult cuTexObjectCreate(CUtexObject* out, const CUDA_RESOURCE_DESC* r,
                               const CUDA_TEXTURE_DESC* t, const CUDA_RESOURCE_VIEW_DESC* view) {
  CURRENT(c);
  (void)c;
  if (!out || !r || !t) return CUDA_ERROR_INVALID_VALUE;
  if (view || r->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) return CUDA_ERROR_NOT_SUPPORTED;
  auto state = std::make_unique<TextureState>();
  state->resource = *r;
  state->description = *t;
  Texels texels;
  if (!texels_of(*state, texels)) return CUDA_ERROR_INVALID_VALUE;
  if (r->resType != CU_RESOURCE_TYPE_ARRAY &&
      !valid_device_range(texels.base,
                          (texels.height - 1) * texels.pitch +
                              texels.width * bytes_of(texels.format) * texels.channels))
    return CUDA_ERROR_INVALID_VALUE;
  if (r->resType == CU_RESOURCE_TYPE_ARRAY && array_of(r->res.array.hArray)->slices() > 1)
    return CUDA_ERROR_NOT_SUPPORTED;
  remember(state.get());
  *out = (CUtexObject)state.release();
  return CUDA_SUCCESS;
}

API CUresult cuTexObjectDestroy(CUtexObject h) {
  CURRENT(c);
  if (CUresult r = wait_for_context(c)) return r;
  if (!h || !forget((TextureState*)h)) return CUDA_ERROR_INVALID_VALUE;
  delete (TextureState*)h;
  return CUDA_SUCCESS;
}
API CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* r, CUtexObject h) {
  if (!r || !driver() || !known((TextureState*)h)) return CUDA_ERROR_INVALID_VALUE;
  *r = ((TextureState*)h)->resource;
  return CUDA_SUCCESS;
}
API CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* t, CUtexObject h) {
  if (!t || !driver() || !known((TextureState*)h)) return CUDA_ERROR_INVALID_VALUE;
  *t = ((TextureState*)h)->description;
  return CUDA_SUCCESS;
}
