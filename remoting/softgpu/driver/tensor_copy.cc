#include "softgpu/driver/tensor_copy.h"

#include <cuda.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "softgpu/device/tensor_map.h"
#include "softgpu/driver/element_reduction.h"
#include "softgpu/driver/memory.h"

namespace softgpu {

namespace {
constexpr uint64_t kMapAlignment = 64, kSharedAlignment = 128, kGlobalAlignment = 16;
constexpr uint32_t kChunkBytes = 16, kMaxElementBytes = 8, kGatheredRows = 4;

// Thrown inside of this file.
struct CopyFault {
  int kind;
  uint64_t address;
};

// Return memory of `bytes` bytes that a kernel may access at a global address.
uint8_t* global_memory(uint64_t address, uint32_t bytes) {
  bool in_window = address - SOFTGPU_WINDOW_BASE < SOFTGPU_WINDOW_BYTES - bytes;
  if (!in_window && !registered_memory(address, bytes)) throw CopyFault{FAULT_ADDRESS, address};
  return (uint8_t*)address;
}

bool is_float_type(uint8_t type) {
  return type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16 || type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32 ||
         type == CU_TENSOR_MAP_DATA_TYPE_FLOAT64 || type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 ||
         type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ;
}

// The copy of one box.
class BoxCopy {
 public:
  BoxCopy(uint64_t map, const TensorCopy& copy, const SharedMemory& shared)
      : copy_(copy), shared_(shared) {
    if (map % kMapAlignment) throw CopyFault{FAULT_MISALIGNED, map};
    std::memcpy(&map_, global_memory(map, sizeof map_), sizeof map_);
    if (!is_supported()) throw CopyFault{FAULT_TRAP, map};
    if (copy.shared % kSharedAlignment) throw CopyFault{FAULT_MISALIGNED, copy.shared};
    if (map_.address % kGlobalAlignment) throw CopyFault{FAULT_MISALIGNED, map_.address};
    element_ = tensor_element_bytes(map_.type);
    // NOLINTNEXTLINE(custom-unchecked-product): 256 elements of 8 bytes
    row_ = map_.box[0] * element_;
    if (row_ % kChunkBytes || (map_.swizzle && row_ != 16u << map_.swizzle && rows() > 1))
      throw CopyFault{FAULT_TRAP, map};
  }
  uint32_t run() {
    for (uint64_t row = 0; row < rows(); ++row) run_row(row);
    // NOLINTNEXTLINE(custom-unchecked-product): as many bytes lie in shared memory
    return (uint32_t)(rows() * row_);
  }

 private:
  bool is_supported() const;
  uint32_t count(uint32_t dimension) const;
  uint64_t rows() const;
  void run_row(uint64_t row);
  bool locate(uint64_t row, uint64_t& address) const;
  uint8_t* shared_chunk(uint64_t offset) const;
  void exchange(uint64_t row, uint8_t* values, bool to_shared) const;
  void fill(uint8_t* values) const;

  const TensorCopy& copy_;
  const SharedMemory& shared_;
  TensorMap map_;
  uint32_t element_ = 0, row_ = 0;  // bytes of an element, and of a row of the box
};

// Dimensions that the copy has and the tensor does not have would not be checked.
bool BoxCopy::is_supported() const {
  bool known = map_.magic == kTensorMapMagic && tensor_element_bytes(map_.type) &&
               map_.interleave == CU_TENSOR_MAP_INTERLEAVE_NONE && map_.mode == kTensorMapTiled &&
               map_.swizzle <= 3 && map_.atom <= 3 && (map_.swizzle == 3 || map_.atom == 0) &&
               map_.fill <= CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA &&
               (!map_.fill || is_float_type(map_.type));
  if (!known || map_.rank >= kMaxTensorRank || copy_.dimensions != map_.rank + 1) return false;
  if (copy_.gather4 && (copy_.dimensions != 2 || map_.box[1] != 1)) return false;
  for (uint32_t i = 0; i <= map_.rank; ++i)
    if (!map_.box[i] || map_.box[i] > kMaxTensorBox || !map_.step[i] ||
        map_.step[i] > kMaxTensorStep || !map_.size[i])
      return false;
  return copy_.operation <= TENSOR_STORE || can_reduce(copy_.operation, map_.type);
}

// Return the number of elements of the box along a dimension.
uint32_t BoxCopy::count(uint32_t dimension) const {
  return (map_.box[dimension] + map_.step[dimension] - 1) / map_.step[dimension];
}

uint64_t BoxCopy::rows() const {
  if (copy_.gather4) return kGatheredRows;
  uint64_t rows = 1;
  // NOLINTNEXTLINE(custom-unchecked-product): at most four factors of 256
  for (uint32_t i = 1; i <= map_.rank; ++i) rows *= count(i);
  return rows;
}

// Set the address of the first element of a row of the box. Return false if the row is outside of
// the tensor. Addresses wrap; global_memory() checks them.
bool BoxCopy::locate(uint64_t row, uint64_t& address) const {
  address = map_.address;
  for (uint32_t i = 1; i <= map_.rank; ++i) {
    uint32_t n = copy_.gather4 ? 1 : count(i);
    int64_t index = copy_.gather4 ? copy_.where[1 + row]
                                  // NOLINTNEXTLINE(custom-unchecked-product): 256 steps of 8
                                  : (int64_t)copy_.where[i] + (int64_t)(row % n) * map_.step[i];
    row /= n;
    if (index < 0 || index >= (int64_t)map_.size[i]) return false;
    // NOLINTNEXTLINE(custom-unchecked-product,custom-unchecked-sum): see above
    address += (uint64_t)index * map_.stride[i - 1];
  }
  return true;
}

// Return 16 bytes of shared memory at an offset of the box. Swizzling exchanges the chunks of a
// line by bits of its number.
uint8_t* BoxCopy::shared_chunk(uint64_t offset) const {
  // NOLINTNEXTLINE(custom-unchecked-sum): 2^32 rows of 2 KiB
  uint64_t at = (uint64_t)copy_.shared + offset, line = at / 128;
  static constexpr uint64_t kLines[] = {0, 1, 3}, kAtomLines[] = {7, 3, 3, 1};
  static constexpr uint64_t kAtomBytes[] = {16, 32, 32, 64};
  if (map_.swizzle == 3)
    // NOLINTNEXTLINE(custom-unchecked-product): bits of a line
    at ^= (line & kAtomLines[map_.atom]) * kAtomBytes[map_.atom];
  else
    // NOLINTNEXTLINE(custom-unchecked-product): bits of a line
    at ^= (line & kLines[map_.swizzle]) * kChunkBytes;
  if (shared_.bytes < kChunkBytes || at > shared_.bytes - kChunkBytes)
    throw CopyFault{FAULT_SHARED, at};
  return shared_.base + at;
}

// Copy the values of a row to or from shared memory.
void BoxCopy::exchange(uint64_t row, uint8_t* values, bool to_shared) const {
  constexpr uint32_t kHalf = kChunkBytes / 2;
  for (uint32_t x = 0; x < row_; x += kChunkBytes) {
    // NOLINTNEXTLINE(custom-unchecked-product): 2^32 rows of 2 KiB
    uint8_t* chunk = shared_chunk(row * row_ + x);
    bool flips =
        map_.swizzle == 3 && map_.atom == 2 && ((uint64_t)(chunk - shared_.base) / 128 & 1);
    for (uint32_t half = 0; half < kChunkBytes; half += kHalf) {
      uint8_t *in_chunk = chunk + (flips ? kHalf - half : half), *value = values + x + half;
      std::memcpy(to_shared ? in_chunk : value, to_shared ? value : in_chunk, kHalf);
    }
  }
}

// Fill a row with what elements outside of the tensor are: 0 or a NaN.
void BoxCopy::fill(uint8_t* values) const {
  std::memset(values, map_.fill ? 0xff : 0, row_);
  for (uint32_t x = element_; map_.fill && x <= row_; x += element_) values[x - 1] = 0x7f;
}

void BoxCopy::run_row(uint64_t row) {
  uint8_t values[kMaxTensorBox * kMaxElementBytes];
  uint64_t address = 0;
  bool inside = locate(row, address);
  // The elements of the row that the tensor has.
  int64_t x = copy_.where[0], first = std::max<int64_t>(-x, 0);
  int64_t last = std::min<int64_t>(map_.box[0], (int64_t)map_.size[0] - x);
  bool some = inside && first < last;
  // NOLINTNEXTLINE(custom-unchecked-product): 256 elements of 8 bytes
  auto bytes = some ? (uint32_t)(last - first) * element_ : 0;
  // NOLINTNEXTLINE(custom-unchecked-product): 256 elements of 8 bytes
  uint8_t* part = values + (some ? first * element_ : 0);
  // NOLINTNEXTLINE(custom-unchecked-product,custom-unchecked-sum): wraps; global_memory checks it
  uint8_t* memory = some ? global_memory(address + (uint64_t)(x + first) * element_, bytes) : part;
  if (copy_.operation == TENSOR_LOAD) {
    fill(values);
    std::memcpy(part, memory, bytes);
    if (map_.type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ) flush_subnormals(values, row_);
    return exchange(row, values, true);
  }
  exchange(row, values, false);
  if (copy_.operation == TENSOR_STORE)
    std::memcpy(memory, part, bytes);
  else
    reduce_elements(copy_.operation, map_.type, memory, part, bytes);
}
}  // namespace

uint32_t tensor_element_bytes(uint8_t type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8: return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ: return 4;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64: return 8;
    default: return 0;
  }
}

TensorResult copy_tensor(uint64_t map, const TensorCopy& copy, const SharedMemory& shared) {
  try {
    return {BoxCopy(map, copy, shared).run()};
  } catch (const CopyFault& f) {
    return {0, f.kind, f.address};
  }
}

}  // namespace softgpu
