// CUDA entry points: tensor maps, in the encoding that kernels of the software GPU read.
#include "softgpu/driver/tensor_map.h"

#include <cstring>

#include "softgpu/api/require.h"

using namespace softgpu;

namespace {
constexpr uint64_t kMaxTiledSize = 1ull << 32, kMaxPixelSize = (1ull << 31) - 1;

// The offsets of pixel boxes with one, two and three dimensions.
constexpr int kHighest[] = {32767, 127, 15};

// NVIDIA's driver writes to any address, although the type has an alignment.
CUresult check_map(const void* map) {
  REQUIRE_DRIVER();
  if (driver()->config.compute_major < kMajorOfTensorMaps) return CUDA_ERROR_NOT_SUPPORTED;
  return map ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

uint32_t major() {
  return driver()->config.compute_major;
}

CUresult store(const TensorMap& map, CUtensorMap* out) {
  static_assert(sizeof map == sizeof *out);
  std::memcpy(out, &map, sizeof map);
  return CUDA_SUCCESS;
}

bool has_arrays(const TensorShape& t) {
  return t.sizes && t.strides && t.steps;
}
}  // namespace

API CUresult cuTensorMapEncodeTiled(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank,
                                    void* p, const cuuint64_t* sizes, const cuuint64_t* strides,
                                    const cuuint32_t* box, const cuuint32_t* steps,
                                    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                    CUtensorMapL2promotion promotion,
                                    CUtensorMapFloatOOBfill fill) {
  if (CUresult r = check_map(out)) return r;
  TensorShape t{type,       rank,    (uint64_t)p, sizes, strides, steps,
                interleave, swizzle, promotion,   fill,  major(), kMaxTiledSize};
  if (!has_arrays(t) || !box || !is_valid(t) || !is_valid_box(t, box))
    return CUDA_ERROR_INVALID_VALUE;
  return store(encode_tiled(t, box), out);
}

API CUresult cuTensorMapEncodeIm2col(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank,
                                     void* p, const cuuint64_t* sizes, const cuuint64_t* strides,
                                     const int* lower, const int* upper, cuuint32_t channels,
                                     cuuint32_t pixels, const cuuint32_t* steps,
                                     CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                     CUtensorMapL2promotion promotion,
                                     CUtensorMapFloatOOBfill fill) {
  if (CUresult r = check_map(out)) return r;
  TensorShape t{type,       rank,    (uint64_t)p, sizes, strides, steps,
                interleave, swizzle, promotion,   fill,  major(), kMaxPixelSize};
  if (!has_arrays(t) || !lower || !upper || rank < 3 || !is_valid(t))
    return CUDA_ERROR_INVALID_VALUE;
  int highest = kHighest[rank - 3];
  TensorPixels q{lower, upper, rank - 2, -highest - 1, highest, channels, pixels};
  if (!is_valid(q, t)) return CUDA_ERROR_INVALID_VALUE;
  return store(encode_pixels(t, q, kTensorMapIm2col), out);
}

API CUresult cuTensorMapEncodeIm2colWide(
    CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank, void* p, const cuuint64_t* sizes,
    const cuuint64_t* strides, int lower, int upper, cuuint32_t channels, cuuint32_t pixels,
    const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  if (CUresult r = check_map(out)) return r;
  TensorShape t{type,       rank,    (uint64_t)p, sizes, strides, steps,
                interleave, swizzle, promotion,   fill,  major(), kMaxPixelSize};
  if (!has_arrays(t) || rank < 3 || !is_valid(t) ||
      (unsigned)mode > CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128)
    return CUDA_ERROR_INVALID_VALUE;
  constexpr uint32_t kPixelsOfW128 = 128;
  if (mode == CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128) pixels = kPixelsOfW128;
  int highest = kHighest[rank - 3];
  TensorPixels q{&lower, &upper, 1, -highest - 1, highest, channels, pixels};
  if (!is_valid(q, t)) return CUDA_ERROR_INVALID_VALUE;
  return store(encode_pixels(t, q, kTensorMapIm2colWide), out);
}

API CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* p) {
  if (CUresult r = check_map(map)) return r;
  TensorMap known;
  std::memcpy((void*)&known, map, sizeof known);
  if (known.magic != kTensorMapMagic ||
      !is_valid_address(known.type, known.interleave, (uint64_t)p))
    return CUDA_ERROR_INVALID_VALUE;
  known.address = (uint64_t)p;
  return store(known, map);
}
