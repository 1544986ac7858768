// The encoding of a CUtensorMap on the software GPU: 128 bytes that cuTensorMapEncode* writes, that
// a kernel receives by value, changes by tensormap.replace and reads for cp.async.bulk.tensor.
//
// Each field that tensormap.replace changes is a naturally aligned word of its own. The bytes come
// from the program: a reader checks every field. The driver and the emitter include this header.
//
// Triton and CUTLASS clear bit 21 of the second word in maps of less than 128 KiB, for drivers of
// CUDA 13.1 and older: it must not be a bit of a valid map.
#pragma once
#include <cstddef>
#include <cstdint>

namespace softgpu {

constexpr uint64_t kTensorMapMagic = 0x3150614d75736f54ULL;
constexpr uint32_t kMaxTensorRank = 5, kMaxTensorBox = 256, kMaxTensorStep = 8;

enum TensorMapMode : uint8_t {
  kTensorMapTiled = 0,
  kTensorMapIm2col = 1,
  kTensorMapIm2colWide = 2
};

// The values of enumerations are those of cuda.h. A map whose type, interleave or mode
// cp.async.bulk.tensor does not know (see tensor_copy.h) makes the kernel fault.
struct TensorMap {
  uint64_t magic = 0;      // kTensorMapMagic
  uint8_t type = 0;        // CUtensorMapDataType
  uint8_t interleave = 0;  // CUtensorMapInterleave
  uint8_t swizzle = 0;     // 0: none, 1: 32 bytes, 2: 64 bytes, 3: 128 bytes
  uint8_t atom = 0;        // of 128-byte swizzling; 0: 16 bytes, 1: 32, 2: 32 with a flip, 3: 64
  uint8_t fill = 0;        // CUtensorMapFloatOOBfill
  uint8_t mode = 0;        // TensorMapMode
  uint16_t unused = 0;
  uint64_t address = 0;                      // of element 0, in global memory; a multiple of 16
  uint64_t stride[kMaxTensorRank - 1] = {};  // bytes from an index of dimension i + 1 to the next
  uint32_t size[kMaxTensorRank] = {};        // elements of each dimension
  uint32_t box[kMaxTensorRank] = {};         // elements that one copy covers, from 1 to 256
  uint32_t step[kMaxTensorRank] = {};        // between the copied elements of the box, from 1 to 8
  uint32_t rank = 0;                         // dimensions less one: 0 to 4
  uint64_t last = 0;                         // unused
};

static_assert(sizeof(TensorMap) == 128, "a CUtensorMap has 128 bytes");
static_assert(offsetof(TensorMap, stride) == 24 && offsetof(TensorMap, size) == 56 &&
              offsetof(TensorMap, rank) == 116);
static_assert(offsetof(TensorMap, swizzle) == 10, "the byte with bit 21 of the second word");

}  // namespace softgpu
