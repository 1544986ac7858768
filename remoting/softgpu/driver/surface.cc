#include "softgpu/driver/surface.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "checked_size.h"
#include "softgpu/driver/array.h"
#include "softgpu/driver/handles.h"

namespace softgpu {

namespace {
template <typename T>
T combine(uint8_t operation, T a, T b) {
  switch (operation) {
    // NOLINTNEXTLINE(custom-unchecked-sum): wraps as the instruction does
    case SURFACE_ADD: return (T)(a + b);
    case SURFACE_MIN: return std::min(a, b);
    case SURFACE_MAX: return std::max(a, b);
    case SURFACE_AND: return (T)(a & b);
    default: return (T)(a | b);
  }
}

template <typename T, typename Unsigned>
void reduce(uint8_t* at, uint8_t operation, uint64_t value) {
  auto* word = (Unsigned*)at;
  Unsigned old = __atomic_load_n(word, __ATOMIC_SEQ_CST), changed;
  do {
    bool adds = operation == SURFACE_ADD;  // without the overflow of signed integers
    // NOLINTNEXTLINE(custom-unchecked-sum): wraps as the instruction does
    changed = adds ? (Unsigned)(old + (Unsigned)value)
                   : (Unsigned)combine<T>(operation, (T)old, (T)(Unsigned)value);
  } while (
      !__atomic_compare_exchange_n(word, &old, changed, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
}

void reduce_element(uint8_t* at, const SurfaceAccess& a, uint64_t value) {
  if (a.bytes == 8)
    a.is_signed ? reduce<int64_t, uint64_t>(at, a.operation, value)
                : reduce<uint64_t, uint64_t>(at, a.operation, value);
  else
    a.is_signed ? reduce<int32_t, uint32_t>(at, a.operation, value)
                : reduce<uint32_t, uint32_t>(at, a.operation, value);
}

// Return a coordinate inside [0, size), or -1 for none.
int64_t inside(int64_t i, uint64_t size, uint8_t beyond) {
  if (i >= 0 && (uint64_t)i < size) return i;
  if (beyond != SURFACE_CLAMP) return -1;
  return i < 0 ? 0 : (int64_t)size - 1;
}

// Get the address of the access; null if it is out of bounds.
uint8_t* element_of(const ArrayState& array, const SurfaceAccess& a) {
  // NOLINTNEXTLINE(custom-unchecked-product): constants of an instruction
  uint64_t pitch = array.pitch().value(), bytes = (uint64_t)a.bytes * a.elements;
  if (bytes > pitch) return nullptr;
  int64_t x = a.where[0];
  if (x < 0 || (uint64_t)x > pitch - bytes) {
    if (a.beyond != SURFACE_CLAMP) return nullptr;
    x = x < 0 ? 0 : (int64_t)(pitch - bytes);
  }
  int64_t y = a.dimensions > 1 ? inside(a.where[1], array.rows(), a.beyond) : 0;
  int64_t z = a.dimensions > 2 ? inside(a.where[2], array.slices(), a.beyond) : 0;
  if (a.layered) z = inside((int64_t)a.layer, array.slices(), a.beyond);
  if (y < 0 || z < 0) return nullptr;
  CheckedSize row = CheckedSize((uint64_t)z) * array.rows() + (uint64_t)y;
  return (uint8_t*)(row * pitch + (uint64_t)x + array.base).value();
}
// Return the bits of a channel for a value of 32 bits: a float for arrays of floats, otherwise an
// integer, which saturates.
uint32_t formatted(uint32_t value, CUarray_format format) {
  float f;
  std::memcpy(&f, &value, 4);
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8: return std::min(value, 255u);
    case CU_AD_FORMAT_UNSIGNED_INT16: return std::min(value, 65535u);
    case CU_AD_FORMAT_SIGNED_INT8: return (uint8_t)std::clamp((int32_t)value, -128, 127);
    case CU_AD_FORMAT_SIGNED_INT16: return (uint16_t)std::clamp((int32_t)value, -32768, 32767);
    case CU_AD_FORMAT_HALF: return std::bit_cast<uint16_t>((_Float16)f);
    default: return value;
  }
}

// Return the access of sust.p as one of bytes, and set `values` to the channels of its texel.
// Channels without a value become 0.
SurfaceAccess store_of_texel(const ArrayState& array, const SurfaceAccess& a, uint64_t* values) {
  SurfaceAccess bytes = a;
  bytes.bytes = (uint8_t)array.channel_bytes();
  bytes.elements = (uint8_t)array.descriptor.NumChannels;
  for (unsigned i = 0; i < bytes.elements; ++i)
    values[i] = i < a.elements ? formatted((uint32_t)values[i], array.descriptor.Format) : 0;
  return bytes;
}

bool is_signed_format(CUarray_format f) {
  return f == CU_AD_FORMAT_SIGNED_INT8 || f == CU_AD_FORMAT_SIGNED_INT16 ||
         f == CU_AD_FORMAT_SIGNED_INT32;
}

// Return the access of sust.p or sured.p as one of bytes.
SurfaceAccess unformatted(const ArrayState& array, const SurfaceAccess& a, uint64_t* values) {
  SurfaceAccess bytes = a.operation == SURFACE_STORE ? store_of_texel(array, a, values) : a;
  if (a.operation != SURFACE_STORE) bytes.is_signed = is_signed_format(array.descriptor.Format);
  // A row has at most 32 MiB; elements beyond it stay beyond it.
  // NOLINTNEXTLINE(custom-unchecked-product): constants of an instruction
  int64_t limit = (int64_t)array.pitch().value(), size = (int64_t)bytes.bytes * bytes.elements;
  // NOLINTNEXTLINE(custom-unchecked-product): 32 MiB times 16
  bytes.where[0] = (int32_t)(std::clamp<int64_t>(a.where[0], -1, limit) * size);
  return bytes;
}
}  // namespace

int access_surface(uint64_t handle, const SurfaceAccess& access, uint64_t* values) {
  auto s = copy_of((const SurfaceState*)handle);
  if (!s) return FAULT_ADDRESS;
  auto array = array_of(s->resource.res.array.hArray);
  if (!array) return FAULT_ADDRESS;
  const SurfaceAccess a = access.formatted ? unformatted(*array, access, values) : access;
  uint8_t* at = element_of(*array, a);
  if (!at) {
    std::fill_n(values, a.elements, 0);
    return a.beyond == SURFACE_TRAP ? FAULT_TRAP : 0;
  }
  // NOLINTNEXTLINE(custom-unchecked-product): constants of an instruction
  if ((uint64_t)at % ((uint64_t)a.bytes * a.elements)) return FAULT_MISALIGNED;
  for (unsigned i = 0; i < a.elements; ++i, at += a.bytes) {
    if (a.operation == SURFACE_LOAD) {
      values[i] = 0;
      std::memcpy(&values[i], at, a.bytes);
    } else if (a.operation == SURFACE_STORE) {
      std::memcpy(at, &values[i], a.bytes);
    } else {
      reduce_element(at, a, values[i]);
    }
  }
  return 0;
}

}  // namespace softgpu
