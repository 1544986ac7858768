// Charges and clearing of mipmapped arrays.
#include "server/array_memory.h"

#include <gtest/gtest.h>

#include "array_element.h"

namespace busbar::server {
namespace {

constexpr uint64_t kTileBytes = 64, kTileRows = 8;

CUDA_ARRAY3D_DESCRIPTOR shape(size_t width, size_t height, size_t depth, unsigned flags = 0) {
  return {width, height, depth, CU_AD_FORMAT_UNSIGNED_INT8, 1, flags};
}

uint64_t up(uint64_t n, uint64_t unit) {
  return (n + unit - 1) / unit * unit;
}

// Returns the bytes of all levels in whole tiles.
uint64_t tiles_of(const CUDA_ARRAY3D_DESCRIPTOR& d, uint32_t levels) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < levels; ++i) {
    auto level = shape_of_level(d, i);
    bytes += up(level.Width, kTileBytes) * up(level.Height, kTileRows) *
             std::max<size_t>(level.Depth, 1);
  }
  return bytes;
}

TEST(ArrayCharge, NarrowLevelsCountAsWholeTiles) {
  Driver gpu;
  gpu.software = false;
  for (auto& d : {shape(1, 65536, 0), shape(3, 4096, 0), shape(4096, 1, 0),
                  shape(16, 16, 512, CUDA_ARRAY3D_LAYERED)}) {
    uint32_t levels = mipmap_levels(d, 100);
    EXPECT_GE(array_charge(gpu, d, levels), tiles_of(d, levels)) << d.Width << " x " << d.Height;
  }
}

TEST(ArrayCharge, LevelsEndAtOneElement) {
  EXPECT_EQ(mipmap_levels(shape(16, 8, 0), 100), 5u);
  EXPECT_EQ(mipmap_levels(shape(16, 8, 0), 0), 1u);
  EXPECT_EQ(mipmap_levels(shape(16, 8, 0), 3), 3u);
  EXPECT_EQ(mipmap_levels(shape(4, 4, 64), 100), 7u);
  EXPECT_EQ(mipmap_levels(shape(4, 4, 64, CUDA_ARRAY3D_LAYERED), 100), 3u);
}

}  // namespace
}  // namespace busbar::server
