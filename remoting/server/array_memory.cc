#include "server/array_memory.h"

#include <algorithm>
#include <vector>

#include "array_element.h"
#include "checked_size.h"
#include "server/memory.h"

namespace busbar::server {

namespace {
constexpr uint64_t kMaxChargeBytes = 1ull << 46;
constexpr uint64_t kCopyBytes = 1 << 20;
// NVIDIA's GPUs store arrays in tiles of at least this size.
constexpr uint64_t kTileBytes = 64, kTileRows = 8;

// Returns the bytes of one channel; 0 for compressed and planar formats.
uint64_t channel_bytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT8X4:
    case CU_AD_FORMAT_SNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X4: return 1;
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X4: return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: return 4;
    default: return 0;
  }
}

// Returns the bytes of an array or level, in whole tiles on a GPU.
CheckedSize charge_of_level(const Driver& cu, const CUDA_ARRAY3D_DESCRIPTOR& d) {
  uint64_t channel = channel_bytes(d.Format);
  CheckedSize row = CheckedSize(d.Width) * std::max(1u, d.NumChannels) * (channel ? channel : 4);
  CheckedSize rows = std::max<size_t>(d.Height, 1);
  if (!cu.software) {
    row = row.rounded_up(kTileBytes);
    if (d.Height) rows = rows.rounded_up(kTileRows);
  }
  return row * rows * std::max<size_t>(d.Depth, 1);
}

// Copies zeros over the rows of each slice.
CUresult copy_zeros(Driver& cu, CUarray array, const CUDA_ARRAY3D_DESCRIPTOR& d, CUstream stream) {
  size_t row = (CheckedSize(d.Width) * d.NumChannels * channel_bytes(d.Format)).value();
  size_t rows = std::max<size_t>(d.Height, 1), at_once = std::clamp(kCopyBytes / row, 1ul, rows);
  std::vector<uint8_t> zeros((CheckedSize(row) * at_once).value());
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = zeros.data();
  copy.srcPitch = copy.WidthInBytes = row;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = array;
  copy.Depth = 1;
  CUresult r = CUDA_SUCCESS;
  for (copy.dstZ = 0; !r && copy.dstZ < std::max<size_t>(d.Depth, 1); ++copy.dstZ)
    for (copy.dstY = 0; !r && copy.dstY < rows; copy.dstY += copy.Height) {
      copy.Height = copy.srcHeight = std::min(at_once, rows - copy.dstY);
      r = cu.cuMemcpy3DAsync(&copy, stream);
    }
  CUresult end = cu.cuStreamSynchronize(stream);  // before the zeros are gone
  return r ? r : end;
}
}  // namespace

uint64_t array_charge(const Driver& cu, const CUDA_ARRAY3D_DESCRIPTOR& d, uint32_t levels) {
  CheckedSize bytes = charge_of_level(cu, d);
  if (levels) bytes = bytes.rounded_up(kLevelAlignment);
  for (uint32_t level = 1; level < levels; ++level)
    bytes = bytes + charge_of_level(cu, shape_of_level(d, level)).rounded_up(kLevelAlignment);
  return std::min(allocation_charge(cu, bytes.value()), kMaxChargeBytes);
}

CUresult clear_array(Driver& cu, CUarray array, const CUDA_ARRAY3D_DESCRIPTOR& d) {
  if (cu.fresh_memory_is_zero) return CUDA_SUCCESS;
  if (!channel_bytes(d.Format) || !d.Width || !d.NumChannels || !cu.cuMemcpy3DAsync)
    return CUDA_ERROR_NOT_SUPPORTED;
  CUstream own;
  if (CUresult r = cu.cuStreamCreateWithPriority(&own, CU_STREAM_NON_BLOCKING, 0)) return r;
  CUresult r = copy_zeros(cu, array, d, own);
  cu.cuStreamDestroy(own);
  return r;
}

CUresult clear_mipmap(Driver& cu, CUmipmappedArray mipmap, const CUDA_ARRAY3D_DESCRIPTOR& d,
                      uint32_t levels) {
  if (cu.fresh_memory_is_zero) return CUDA_SUCCESS;
  if (!cu.cuMipmappedArrayGetLevel) return CUDA_ERROR_NOT_SUPPORTED;
  for (uint32_t level = 0; level < levels; ++level) {
    CUarray array = nullptr;
    if (CUresult r = cu.cuMipmappedArrayGetLevel(&array, mipmap, level)) return r;
    if (CUresult r = clear_array(cu, array, shape_of_level(d, level))) return r;
  }
  return CUDA_SUCCESS;
}

}  // namespace busbar::server
