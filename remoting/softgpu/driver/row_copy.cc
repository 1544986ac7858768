#include "softgpu/driver/row_copy.h"

#include <cstring>

#include "checked_size.h"
#include "softgpu/device/copy_measure.h"
#include "softgpu/driver/array.h"
#include "softgpu/driver/memory.h"

namespace softgpu {

namespace {
// Rows of one side of a copy. Pitch in bytes, height in rows.
struct Rows {
  uint64_t first = 0, pitch = 0, height = 0;
  // Return the address of row y of slice z of the copy.
  uint64_t row(size_t y, size_t z) const {
    return ((CheckedSize(z) * height + y) * pitch + first).value();
  }
};

// One side of a copy as the program describes it.
struct Side {
  CUmemorytype type;
  uint64_t host, device;
  CUarray array;
  CheckedSize x, y, z;     // offset: bytes, rows, slices
  uint64_t pitch, height;  // of a row and a slice; 0: packed
};

CUresult rows_of_array(const Side& side, const CUDA_MEMCPY3D& c, Rows& out) {
  auto a = array_of(side.array);
  if (!a || !(side.x + c.WidthInBytes).within(a->pitch()) ||
      !(side.y + c.Height).within(a->rows()) || !(side.z + c.Depth).within(a->slices()))
    return CUDA_ERROR_INVALID_VALUE;
  CheckedSize first = a->base + (side.z * a->rows() + side.y) * a->pitch() + side.x;
  out = {first.value(), a->pitch().value(), a->rows()};
  return CUDA_SUCCESS;
}

CUresult rows_of_memory(const Side& side, const CUDA_MEMCPY3D& c, Rows& out) {
  CheckedSize width = side.x + c.WidthInBytes, pitch = side.pitch ? side.pitch : width,
              height = side.height ? side.height : side.y + c.Height;
  CheckedSize base = side.type == CU_MEMORYTYPE_HOST ? side.host : side.device;
  CheckedSize first = base + (side.z * height + side.y) * pitch + side.x;
  CheckedSize bytes = ((CheckedSize(c.Depth) - 1) * height + c.Height - 1) * pitch + c.WidthInBytes;
  if (base.value() == 0 || !width.within(pitch) || !(first + bytes).valid())
    return CUDA_ERROR_INVALID_VALUE;
  if (side.type == CU_MEMORYTYPE_DEVICE && !valid_device_range(first.value(), bytes.value()))
    return CUDA_ERROR_INVALID_VALUE;
  out = {first.value(), pitch.value(), height.value()};
  return CUDA_SUCCESS;
}

CUresult rows_of(const Side& side, const CUDA_MEMCPY3D& c, Rows& out) {
  return side.type == CU_MEMORYTYPE_ARRAY ? rows_of_array(side, c, out)
                                          : rows_of_memory(side, c, out);
}
}  // namespace

CUresult copy_runner(Engine* engine, const CUDA_MEMCPY3D& c, std::function<CUresult()>& run) {
  if (!c.WidthInBytes || !c.Height || !c.Depth) {
    run = [] {
      return CUDA_SUCCESS;
    };
    return CUDA_SUCCESS;
  }
  Rows from, to;
  Side source{c.srcMemoryType, (uint64_t)c.srcHost, c.srcDevice, c.srcArray, c.srcXInBytes, c.srcY,
              c.srcZ,          c.srcPitch,          c.srcHeight};
  Side target{c.dstMemoryType, (uint64_t)c.dstHost, c.dstDevice, c.dstArray, c.dstXInBytes, c.dstY,
              c.dstZ,          c.dstPitch,          c.dstHeight};
  if (CUresult r = rows_of(source, c, from)) return r;
  if (CUresult r = rows_of(target, c, to)) return r;
  run = [engine, from, to, width = c.WidthInBytes, height = c.Height, depth = c.Depth] {
    CopyMeasure measure(engine, (CheckedSize(width) * height * depth).value());
    for (size_t z = 0; z < depth; ++z)
      for (size_t y = 0; y < height; ++y)
        std::memmove((void*)to.row(y, z), (const void*)from.row(y, z), width);
    return CUDA_SUCCESS;
  };
  return CUDA_SUCCESS;
}

}  // namespace softgpu
