/* Integer multiplication, division and saturation. */

INLINE s16 mulhi_s16(s16 a, s16 b) {
  return (s16)(((s32)a * b) >> 16);
}

INLINE u16 mulhi_u16(u16 a, u16 b) {
  return (u16)(((u32)a * b) >> 16);
}

INLINE s32 mulhi_s32(s32 a, s32 b) {
  return (s32)(((s64)a * b) >> 32);
}

INLINE u32 mulhi_u32(u32 a, u32 b) {
  return (u32)(((u64)a * b) >> 32);
}

INLINE s64 mulhi_s64(s64 a, s64 b) {
  return (s64)(((s128)a * b) >> 64);
}

INLINE u64 mulhi_u64(u64 a, u64 b) {
  return (u64)(((u128)a * b) >> 64);
}

INLINE s32 add_sat_s32(s32 a, s32 b) {
  return sat_s32((s128)a + b);
}

INLINE s32 sub_sat_s32(s32 a, s32 b) {
  return sat_s32((s128)a - b);
}

INLINE s32 mul24_s32(s32 a, s32 b) {
  return (s32)((u32)((s32)((u32)a << 8) >> 8) * (u32)((s32)((u32)b << 8) >> 8));
}

INLINE u32 mul24_u32(u32 a, u32 b) {
  return (a & 0xffffff) * (b & 0xffffff);
}

INLINE s32 mad24_s32(s32 a, s32 b, s32 c) {
  return (s32)((u32)mul24_s32(a, b) + (u32)c);
}

INLINE u32 mad24_u32(u32 a, u32 b, u32 c) {
  return mul24_u32(a, b) + c;
}

/* Division by zero results in all ones, its remainder is the dividend; overflow wraps. */
#define DIVIDE(S, U)                                                \
  INLINE U div_##U(U a, U b) {                                      \
    return b ? (U)(a / b) : (U) ~(U)0;                              \
  }                                                                 \
  INLINE U rem_##U(U a, U b) {                                      \
    return b ? (U)(a % b) : a;                                      \
  }                                                                 \
  INLINE S div_##S(S a, S b) {                                      \
    return b == 0 ? (S) - 1 : b == -1 ? (S)(0 - (U)a) : (S)(a / b); \
  }                                                                 \
  INLINE S rem_##S(S a, S b) {                                      \
    return b == 0 ? a : b == -1 ? 0 : (S)(a % b);                   \
  }                                                                 \
  INLINE U min_##U(U a, U b) {                                      \
    return a < b ? a : b;                                           \
  }                                                                 \
  INLINE U max_##U(U a, U b) {                                      \
    return a > b ? a : b;                                           \
  }                                                                 \
  INLINE S min_##S(S a, S b) {                                      \
    return a < b ? a : b;                                           \
  }                                                                 \
  INLINE S max_##S(S a, S b) {                                      \
    return a > b ? a : b;                                           \
  }
DIVIDE(s16, u16);
DIVIDE(s32, u32);
DIVIDE(s64, u64);
