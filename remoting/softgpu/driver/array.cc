#include "softgpu/driver/array.h"

#include "array_element.h"
#include "softgpu/device/arena.h"
#include "softgpu/driver/context.h"
#include "softgpu/driver/handles.h"

namespace softgpu {

namespace {
constexpr uint64_t kMaxRows = 65536, kMaxSlices = 16384, kMaxPitch = 32ull << 20;
constexpr uint64_t kPageBytes = 4096, kCubeFaces = 6;
constexpr unsigned kFlags = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP |
                            CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_TEXTURE_GATHER;

// Return whether the sizes are those of an array of these flags.
bool has_valid_shape(const CUDA_ARRAY3D_DESCRIPTOR& d) {
  bool layered = d.Flags & CUDA_ARRAY3D_LAYERED, cube = d.Flags & CUDA_ARRAY3D_CUBEMAP;
  if ((d.Flags & CUDA_ARRAY3D_TEXTURE_GATHER) && (!d.Height || (d.Depth && !layered))) return false;
  if (cube)
    return d.Width == d.Height &&
           (layered ? d.Depth && d.Depth % kCubeFaces == 0 : d.Depth == kCubeFaces);
  return layered ? d.Depth > 0 : d.Height || !d.Depth;
}

CUresult check_descriptor(const CUDA_ARRAY3D_DESCRIPTOR& d) {
  if (!d.Width || !channel_bytes(d.Format) ||
      (d.NumChannels != 1 && d.NumChannels != 2 && d.NumChannels != 4))
    return CUDA_ERROR_INVALID_VALUE;
  if (d.Flags & ~kFlags) return CUDA_ERROR_NOT_SUPPORTED;
  ArrayState a;
  a.descriptor = d;
  if (!has_valid_shape(d) || a.rows() > kMaxRows || a.slices() > kMaxSlices ||
      !a.pitch().within(kMaxPitch))
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

// Charge and map memory of whole pages. Set `bytes` to its size.
CUresult map_array(Context* c, uint64_t& base, uint64_t& bytes) {
  bytes = CheckedSize(bytes).rounded_up(kPageBytes).value();
  if (!c->device->engine->charge(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  base = map_private(bytes);
  if (base) return CUDA_SUCCESS;
  c->device->engine->refund(bytes);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

void unmap_array(int ordinal, uint64_t base, uint64_t bytes) {
  unmap_private(base, bytes);
  device_at(ordinal)->engine->refund(bytes);
}

// Append a level behind the others, and return the size of all.
CheckedSize append_level(MipmapState& m, const CUDA_ARRAY3D_DESCRIPTOR& d, CheckedSize at) {
  auto a = std::make_unique<ArrayState>();
  a->descriptor = d;
  a->ordinal = m.ordinal;
  a->is_level = true;
  a->base = at.value();  // from the beginning of the memory
  CheckedSize bytes = (a->pitch() * a->rows() * a->slices()).rounded_up(busbar::kLevelAlignment);
  a->bytes = bytes.value();
  m.levels.push_back(std::move(a));
  return at + bytes;
}
}  // namespace

unsigned channel_bytes(CUarray_format f) {
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

unsigned ArrayState::channel_bytes() const {
  return softgpu::channel_bytes(descriptor.Format);
}

std::optional<ArrayState> array_of(CUarray a) {
  return copy_of((const ArrayState*)a);
}

uint32_t level_count(CUmipmappedArray h) {
  auto* m = (const MipmapState*)h;
  uint32_t count = 0;
  with_live_as(kind_of<MipmapState>(), m, [&] { count = (uint32_t)m->levels.size(); });
  return count;
}

CUarray level_of(CUmipmappedArray h, uint32_t level) {
  auto* m = (const MipmapState*)h;
  const ArrayState* found = nullptr;
  with_live_as(kind_of<MipmapState>(), m, [&] {
    if (level < m->levels.size()) found = m->levels[level].get();
  });
  return (CUarray)found;
}

CUresult create_array(Context* c, const CUDA_ARRAY3D_DESCRIPTOR& d, CUarray* out) {
  if (CUresult r = check_descriptor(d)) return r;
  auto a = std::make_unique<ArrayState>();
  a->descriptor = d;
  a->ordinal = c->device->ordinal;
  a->bytes = (a->pitch() * a->rows() * a->slices()).value();
  if (CUresult r = map_array(c, a->base, a->bytes)) return r;
  add_handle(a.get());
  *out = (CUarray)a.release();
  return CUDA_SUCCESS;
}

CUresult create_mipmap(Context* c, const CUDA_ARRAY3D_DESCRIPTOR& d, unsigned levels,
                       CUmipmappedArray* out) {
  if (CUresult r = check_descriptor(d)) return r;
  auto m = std::make_unique<MipmapState>();
  m->descriptor = d;
  m->ordinal = c->device->ordinal;
  CheckedSize total = 0;
  for (uint32_t level = 0; level < busbar::mipmap_levels(d, levels); ++level)
    total = append_level(*m, busbar::shape_of_level(d, level), total);
  m->bytes = total.value();
  if (CUresult r = map_array(c, m->base, m->bytes)) return r;
  for (auto& level : m->levels) {
    level->base = (CheckedSize(m->base) + level->base).value();
    add_handle(level.get());
  }
  add_handle(m.get());
  *out = (CUmipmappedArray)m.release();
  return CUDA_SUCCESS;
}

CUresult destroy_array(CUarray h) {
  auto* a = (const ArrayState*)h;
  auto known = array_of(h);
  if (!known) return CUDA_ERROR_INVALID_HANDLE;
  if (known->is_level) return CUDA_ERROR_INVALID_VALUE;
  if (!remove_handle(a)) return CUDA_ERROR_INVALID_HANDLE;
  unmap_array(a->ordinal, a->base, a->bytes);
  delete a;
  return CUDA_SUCCESS;
}

CUresult destroy_mipmap(CUmipmappedArray h) {
  auto* m = (const MipmapState*)h;
  if (!m || !remove_handle(m)) return CUDA_ERROR_INVALID_HANDLE;
  for (auto& level : m->levels) remove_handle(level.get());
  unmap_array(m->ordinal, m->base, m->bytes);
  delete m;
  return CUDA_SUCCESS;
}

}  // namespace softgpu
