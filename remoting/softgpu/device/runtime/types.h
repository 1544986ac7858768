/* Types of the C that kernels are translated to, and conversions between values and bits. */

#include <math.h>
#include <stddef.h>
#include <time.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef unsigned __int128 u128;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef __int128 s128;
typedef _Float16 f16;
typedef float f32;
typedef double f64;
typedef float bf16;
#define INLINE static inline __attribute__((always_inline, unused))
#define NOINLINE static __attribute__((noinline, unused))

INLINE f32 as_f32(u32 v) {
  f32 f;
  __builtin_memcpy(&f, &v, 4);
  return f;
}

INLINE f64 as_f64(u64 v) {
  f64 f;
  __builtin_memcpy(&f, &v, 8);
  return f;
}

INLINE f16 as_f16(u16 v) {
  f16 f;
  __builtin_memcpy(&f, &v, 2);
  return f;
}

INLINE bf16 as_bf16(u16 v) {
  return as_f32((u32)v << 16);
}

INLINE u32 bits_f32(f32 v) {
  u32 b;
  __builtin_memcpy(&b, &v, 4);
  return b;
}

INLINE u64 bits_f64(f64 v) {
  u64 b;
  __builtin_memcpy(&b, &v, 8);
  return b;
}

INLINE u16 bits_f16(f16 v) {
  u16 b;
  __builtin_memcpy(&b, &v, 2);
  return b;
}

INLINE u16 bits_bf16(f32 v) {
  u32 b = bits_f32(v);
  if (v != v) return 0x7fff;
  return (u16)((b + 0x7fff + ((b >> 16) & 1)) >> 16);
}
