#include "softgpu/driver/fill.h"

#include <cstring>

#include "checked_size.h"
#include "softgpu/device/copy_measure.h"
#include "softgpu/driver/memory.h"

namespace softgpu {

static void fill_row(uint64_t at, const CUDA_MEMSET_NODE_PARAMS& f) {
  for (size_t x = 0; x < f.width; ++x, at += f.elementSize)
    std::memcpy((void*)at, &f.value, f.elementSize);
}

CUresult fill_runner(Engine* engine, const CUDA_MEMSET_NODE_PARAMS& f,
                     std::function<CUresult()>& run) {
  if ((f.elementSize != 1 && f.elementSize != 2 && f.elementSize != 4) || f.dst % f.elementSize)
    return CUDA_ERROR_INVALID_VALUE;
  CheckedSize width = CheckedSize(f.width) * f.elementSize;
  if (!f.width || !f.height) {
    run = [] {
      return CUDA_SUCCESS;
    };
    return CUDA_SUCCESS;
  }
  if (f.height > 1 && !width.within(f.pitch)) return CUDA_ERROR_INVALID_VALUE;
  CheckedSize bytes = (CheckedSize(f.height) - 1) * f.pitch + width;
  if (!bytes.valid() || !valid_device_range(f.dst, bytes.value())) return CUDA_ERROR_INVALID_VALUE;
  run = [engine, f, width] {
    CopyMeasure measure(engine, (width * f.height).value());
    for (size_t y = 0; y < f.height; ++y) fill_row((CheckedSize(f.pitch) * y + f.dst).value(), f);
    return CUDA_SUCCESS;
  };
  return CUDA_SUCCESS;
}

}  // namespace softgpu
