#include "softgpu/driver/element_reduction.h"

#include <cuda.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "softgpu/device/cta.h"

namespace softgpu {

namespace {

bool is_bitwise(uint8_t operation) {
  return operation == TENSOR_AND || operation == TENSOR_OR || operation == TENSOR_XOR;
}

// The number of a bf16: the upper half of a float.
struct Bfloat {
  using Word = uint16_t;
  static float number(Word bits) { return std::bit_cast<float>((uint32_t)bits << 16); }
  static Word bits(float f) {
    if (std::isnan(f)) return 0x7fff;
    auto b = std::bit_cast<uint32_t>(f);
    // NOLINTNEXTLINE(custom-unchecked-sum): rounding carries into the exponent
    return (Word)((b + 0x7fff + ((b >> 16) & 1)) >> 16);
  }
};
struct Half {
  using Word = uint16_t;
  static float number(Word bits) { return (float)std::bit_cast<_Float16>(bits); }
  static Word bits(float f) { return std::bit_cast<Word>((_Float16)f); }
};
struct Single {
  using Word = uint32_t;
  static float number(Word bits) { return std::bit_cast<float>(bits); }
  static Word bits(float f) { return std::bit_cast<Word>(f); }
};

template <typename Float>
typename Float::Word combine_floats(uint8_t operation, typename Float::Word a,
                                    typename Float::Word b) {
  float x = Float::number(a), y = Float::number(b);
  switch (operation) {
    case TENSOR_MIN: return Float::bits(std::fmin(x, y));
    case TENSOR_MAX: return Float::bits(std::fmax(x, y));
    default: return Float::bits(x + y);
  }
}

template <typename T, typename Word>
Word combine_integers(uint8_t operation, Word a, Word b) {
  switch (operation) {
    case TENSOR_MIN: return (Word)std::min((T)a, (T)b);
    case TENSOR_MAX: return (Word)std::max((T)a, (T)b);
    case TENSOR_INC: return a >= b ? 0 : a + 1;
    case TENSOR_DEC: return a == 0 || a > b ? b : a - 1;
    case TENSOR_AND: return a & b;
    case TENSOR_OR: return a | b;
    case TENSOR_XOR: return a ^ b;
    // NOLINTNEXTLINE(custom-unchecked-sum): wraps as the instruction does
    default: return a + b;
  }
}

template <typename Word>
void reduce(uint8_t operation, Word (*combine)(uint8_t, Word, Word), uint8_t* memory,
            const uint8_t* values, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; i += sizeof(Word)) {
    auto* word = (Word*)(memory + i);
    Word value, old = __atomic_load_n(word, __ATOMIC_SEQ_CST), changed;
    std::memcpy(&value, values + i, sizeof value);
    do changed = combine(operation, old, value);
    while (!__atomic_compare_exchange_n(word, &old, changed, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST));
  }
}

}  // namespace

bool can_reduce(uint8_t operation, uint8_t type) {
  bool order = operation == TENSOR_MIN || operation == TENSOR_MAX;
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT32: return operation <= TENSOR_XOR;
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
      return operation == TENSOR_ADD || order || is_bitwise(operation);
    case CU_TENSOR_MAP_DATA_TYPE_INT64: return order || is_bitwise(operation);
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return operation == TENSOR_ADD || order;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32: return operation == TENSOR_ADD;
    default: return false;
  }
}

void reduce_elements(uint8_t operation, uint8_t type, uint8_t* memory, const uint8_t* values,
                     uint32_t bytes) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
      return reduce(operation, combine_integers<int32_t, uint32_t>, memory, values, bytes);
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
      return reduce(operation, combine_integers<uint64_t, uint64_t>, memory, values, bytes);
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
      return reduce(operation, combine_integers<int64_t, uint64_t>, memory, values, bytes);
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
      return reduce(operation, combine_floats<Half>, memory, values, bytes);
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return reduce(operation, combine_floats<Bfloat>, memory, values, bytes);
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
      return reduce(operation, combine_floats<Single>, memory, values, bytes);
    default: return reduce(operation, combine_integers<uint32_t, uint32_t>, memory, values, bytes);
  }
}

void flush_subnormals(uint8_t* values, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; i += sizeof(float)) {
    float f;
    std::memcpy(&f, values + i, sizeof f);
    if (std::fpclassify(f) == FP_SUBNORMAL) f = std::copysign(0.0f, f);
    std::memcpy(values + i, &f, sizeof f);
  }
}

}  // namespace softgpu
