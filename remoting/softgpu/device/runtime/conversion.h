/* cvt between floats and integers. */

INLINE f64 round_rni(f64 v) {
  return __builtin_rint(v);
}

INLINE f64 round_rzi(f64 v) {
  return __builtin_trunc(v);
}

INLINE f64 round_rmi(f64 v) {
  return __builtin_floor(v);
}

INLINE f64 round_rpi(f64 v) {
  return __builtin_ceil(v);
}

#define ROUND_TO(m)                      \
  INLINE f32 round_##m##_f32(f32 v) {    \
    return (f32)round_##m(v);            \
  }                                      \
  INLINE f64 round_##m##_f64(f64 v) {    \
    return round_##m(v);                 \
  }                                      \
  INLINE f16 round_##m##_f16(f16 v) {    \
    return (f16)round_##m(v);            \
  }                                      \
  INLINE bf16 round_##m##_bf16(bf16 v) { \
    return (f32)round_##m(v);            \
  }
ROUND_TO(rni);
ROUND_TO(rzi);
ROUND_TO(rmi);
ROUND_TO(rpi);

/* A float outside of the integer's range gives the nearest end, NaN gives 0. The value passes
 * through a wider integer: gcc turns (float)(int)x into a truncation, which keeps the sign of a
 * zero. */
#define TO_INT(T, W, lo, hi)                                                     \
  INLINE T to_##T(f64 v) {                                                       \
    return v != v ? 0 : v <= (f64)(lo) ? (lo) : v >= (f64)(hi) ? (hi) : (T)(W)v; \
  }
TO_INT(s8, s64, INT8_MIN, INT8_MAX);
TO_INT(s16, s64, INT16_MIN, INT16_MAX);
TO_INT(s32, s64, INT32_MIN, INT32_MAX);
TO_INT(s64, s128, INT64_MIN, INT64_MAX);
TO_INT(u8, s64, 0, UINT8_MAX);
TO_INT(u16, s64, 0, UINT16_MAX);
TO_INT(u32, s64, 0, UINT32_MAX);
TO_INT(u64, s128, 0, UINT64_MAX);

#define SAT_INT(T, lo, hi)                                   \
  INLINE T sat_##T(s128 v) {                                 \
    return v<(s128)(lo) ? (lo) : v>(s128)(hi) ? (hi) : (T)v; \
  }
SAT_INT(s8, INT8_MIN, INT8_MAX);
SAT_INT(s16, INT16_MIN, INT16_MAX);
SAT_INT(s32, INT32_MIN, INT32_MAX);
SAT_INT(s64, INT64_MIN, INT64_MAX);
SAT_INT(u8, 0, UINT8_MAX);
SAT_INT(u16, 0, UINT16_MAX);
SAT_INT(u32, 0, UINT32_MAX);
SAT_INT(u64, 0, UINT64_MAX);
