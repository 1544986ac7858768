// Null driver: arrays and mipmapped arrays.
#include "null_driver/array.h"

#include <algorithm>
#include <bit>
#include <memory>

#include "null_driver/dirty.h"
#include "null_driver/driver.h"

namespace {
size_t channel_bytes(CUarray_format f) {
  switch (f) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8: return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF: return 2;
    default: return 4;
  }
}

using Levels = std::vector<std::unique_ptr<NullArray>>;

size_t halved(size_t n, unsigned times) {
  return n ? std::max<size_t>(n >> times, 1) : 0;
}
}  // namespace

NullArray::NullArray(const CUDA_ARRAY3D_DESCRIPTOR& d)
    : descriptor(d),
      row_bytes(d.Width * d.NumChannels * channel_bytes(d.Format)),
      rows(std::max<size_t>(d.Height, 1)),
      slices(std::max<size_t>(d.Depth, 1)),
      content(row_bytes * rows * slices, kDirt) {}

API CUresult cuArray3DCreate(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* d) {
  *out = (CUarray) new NullArray(*d);
  return CUDA_SUCCESS;
}
API CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray a) {
  *out = ((NullArray*)a)->descriptor;
  return CUDA_SUCCESS;
}
API CUresult cuArrayDestroy(CUarray a) {
  delete (NullArray*)a;
  return CUDA_SUCCESS;
}
API CUresult cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* d,
                                    unsigned levels) {
  auto* all = new Levels;
  size_t largest = std::max({d->Width, d->Height, d->Depth});
  levels = std::min(levels, (unsigned)std::bit_width(largest));
  for (unsigned i = 0; i < levels; ++i) {
    CUDA_ARRAY3D_DESCRIPTOR level = *d;
    level.Width = halved(d->Width, i);
    level.Height = halved(d->Height, i);
    level.Depth = halved(d->Depth, i);
    all->push_back(std::make_unique<NullArray>(level));
  }
  *out = (CUmipmappedArray)all;
  return CUDA_SUCCESS;
}
API CUresult cuMipmappedArrayGetLevel(CUarray* out, CUmipmappedArray m, unsigned level) {
  auto& all = *(Levels*)m;
  if (level >= all.size()) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUarray)all[level].get();
  return CUDA_SUCCESS;
}
API CUresult cuMipmappedArrayDestroy(CUmipmappedArray m) {
  delete (Levels*)m;
  return CUDA_SUCCESS;
}
