#include "softgpu/driver/tensor_map.h"

#include <algorithm>

#include "checked_size.h"

namespace softgpu {

namespace {
constexpr uint64_t kStrideEnd = 1ull << 40;
constexpr uint32_t kMajorOfPackedTypes = 10;  // of the compute capability
constexpr uint32_t kMaxChannels = 256, kMaxPixels = 1024;
constexpr uint32_t kPackedElements = 128;     // of a row, for types with gaps
constexpr uint64_t kMaxBoxBytes = 227 << 10;  // as the largest shared memory of a block
constexpr uint64_t kRowUnitBits = 128;        // of which rows in shared memory consist

bool is_packed(uint32_t type) {
  return type >= CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B;
}

bool has_gaps(uint32_t type) {
  return type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B ||
         type == CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B;
}

bool is_float(uint32_t type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ: return true;
    default: return false;
  }
}

// Of an element in shared memory. Packed types have gaps there.
uint32_t element_bits(uint32_t type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
    case CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B:
    case CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B: return 8;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return 16;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64: return 64;
    case CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B: return 4;
    default: return 32;
  }
}

uint64_t alignment_of(uint32_t type, uint32_t interleave) {
  return interleave == CU_TENSOR_MAP_INTERLEAVE_32B || has_gaps(type) ? 32 : 16;
}

bool has_valid_types(const TensorShape& t) {
  bool known = (unsigned)t.type <= CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B &&
               (unsigned)t.interleave <= CU_TENSOR_MAP_INTERLEAVE_32B &&
               (unsigned)t.swizzle <= CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B &&
               (unsigned)t.promotion <= CU_TENSOR_MAP_L2_PROMOTION_L2_256B &&
               (unsigned)t.fill <= CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
  if (!known || (t.fill && !is_float(t.type))) return false;
  return t.type != CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B || !t.interleave;
}

// Types with gaps can be swizzled in some ways only.
bool has_valid_swizzle(const TensorShape& t) {
  if (!has_gaps(t.type)) return true;
  switch (t.swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_NONE:
    case CU_TENSOR_MAP_SWIZZLE_64B:  // of wide maps only, which have another check
    case CU_TENSOR_MAP_SWIZZLE_128B:
    case CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B: return true;
    default:
      return t.swizzle == CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B &&
             t.type == CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B;
  }
}

bool has_valid_sizes(const TensorShape& t) {
  for (uint32_t i = 0; i < t.rank; ++i)
    if (!t.sizes[i] || t.sizes[i] > t.max_size) return false;
  if (has_gaps(t.type)) return t.sizes[0] % kPackedElements == 0;
  return !is_packed(t.type) || t.sizes[0] % 2 == 0;
}

bool has_valid_strides(const TensorShape& t) {
  uint64_t alignment = alignment_of(t.type, t.interleave);
  for (uint32_t i = 0; i + 1 < t.rank; ++i)
    if (t.strides[i] % alignment || t.strides[i] >= kStrideEnd) return false;
  return true;
}

bool has_valid_steps(const TensorShape& t) {
  for (uint32_t i = 0; i < t.rank; ++i)
    if (!t.steps[i] || t.steps[i] > kMaxTensorStep) return false;
  return true;
}

uint32_t swizzled_bytes(CUtensorMapSwizzle swizzle) {
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_NONE: return UINT32_MAX;
    case CU_TENSOR_MAP_SWIZZLE_32B: return 32;
    case CU_TENSOR_MAP_SWIZZLE_64B: return 64;
    default: return 128;
  }
}

// Newer devices have further types and ways to swizzle.
bool has_device_features(const TensorShape& t) {
  return t.compute_major >= kMajorOfPackedTypes ||
         (!is_packed(t.type) && t.swizzle <= CU_TENSOR_MAP_SWIZZLE_128B);
}

TensorMap encode(const TensorShape& t) {
  TensorMap m;
  m.magic = kTensorMapMagic;
  m.address = t.address;
  m.rank = t.rank - 1;
  // An index has 31 bits, so that the largest size needs no further bit.
  for (uint32_t i = 0; i < t.rank; ++i)
    m.size[i] = (uint32_t)std::min<uint64_t>(t.sizes[i], UINT32_MAX);
  for (uint32_t i = 0; i < t.rank; ++i) m.step[i] = !i && !t.interleave ? 1 : t.steps[i];
  std::copy_n(t.strides, t.rank - 1, m.stride);
  m.type = (uint8_t)t.type;
  m.interleave = (uint8_t)t.interleave;
  m.swizzle = (uint8_t)std::min<unsigned>(t.swizzle, CU_TENSOR_MAP_SWIZZLE_128B);
  m.atom = (uint8_t)(t.swizzle - m.swizzle);
  m.fill = (uint8_t)t.fill;
  return m;
}
}  // namespace

bool is_valid_address(uint8_t type, uint8_t interleave, uint64_t address) {
  return address % alignment_of(type, interleave) == 0;
}

bool is_valid(const TensorShape& t) {
  return has_valid_types(t) && has_device_features(t) && has_valid_swizzle(t) &&
         t.rank >= (t.interleave ? 3u : 1u) && t.rank <= kMaxTensorRank &&
         is_valid_address((uint8_t)t.type, (uint8_t)t.interleave, t.address) &&
         has_valid_sizes(t) && has_valid_strides(t) && has_valid_steps(t);
}

bool is_valid_row(const TensorShape& t, uint32_t elements) {
  if (has_gaps(t.type) && elements != kPackedElements) return false;
  if (t.interleave) return true;
  uint64_t bits = (CheckedSize(elements) * element_bits(t.type)).value();
  return bits % kRowUnitBits == 0 && bits / 8 <= swizzled_bytes(t.swizzle);
}

bool is_valid_box(const TensorShape& t, const cuuint32_t* box) {
  CheckedSize elements = 1;
  for (uint32_t i = 0; i < t.rank; ++i) {
    if (!box[i] || box[i] > kMaxTensorBox) return false;
    elements = elements * box[i];
  }
  bool fits = (elements * element_bits(t.type)).within(CheckedSize(kMaxBoxBytes) * 8);
  return fits && is_valid_row(t, box[0]);
}

bool is_valid(const TensorPixels& p, const TensorShape& t) {
  for (uint32_t i = 0; i < p.offsets; ++i)
    for (int offset : {p.lower[i], p.upper[i]})
      if (offset < p.lowest || offset > p.highest) return false;
  return p.channels && p.channels <= kMaxChannels && p.pixels && p.pixels <= kMaxPixels &&
         is_valid_row(t, p.channels);
}

TensorMap encode_tiled(const TensorShape& t, const cuuint32_t* box) {
  TensorMap m = encode(t);
  m.mode = kTensorMapTiled;
  std::copy_n(box, t.rank, m.box);
  return m;
}

// The box holds channels, pixels, and both corners of each dimension as 16 bits.
TensorMap encode_pixels(const TensorShape& t, const TensorPixels& p, TensorMapMode mode) {
  TensorMap m = encode(t);
  m.mode = mode;
  m.box[0] = p.channels;
  m.box[1] = p.pixels;
  for (uint32_t i = 0; i < p.offsets; ++i)
    m.box[2 + i] = (uint16_t)p.lower[i] | (uint32_t)(uint16_t)p.upper[i] << 16;
  return m;
}

}  // namespace softgpu
