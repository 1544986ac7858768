/* Flushing, saturation, fused multiply-add and signs of floats. */

INLINE f32 ftz_f32(f32 v) {
  return __builtin_fabsf(v) < 1.17549435e-38f ? __builtin_copysignf(0.0f, v) : v;
}

INLINE f64 ftz_f64(f64 v) {
  return __builtin_fabs(v) < 2.2250738585072014e-308 ? __builtin_copysign(0.0, v) : v;
}

INLINE f16 ftz_f16(f16 v) {
  u16 b = bits_f16(v);
  return (b & 0x7c00) == 0 ? as_f16(b & 0x8000) : v;
}

INLINE bf16 ftz_bf16(bf16 v) {
  return ftz_f32(v);
}

INLINE f32 sat_f32(f32 v) {
  return v > 0 ? (v < 1 ? v : 1) : 0;
}

INLINE f64 sat_f64(f64 v) {
  return v > 0 ? (v < 1 ? v : 1) : 0;
}

INLINE f16 sat_f16(f16 v) {
  return v > 0 ? (v < 1 ? v : (f16)1) : (f16)0;
}

INLINE f32 relu_f32(f32 v) {
  return v > 0 || v != v ? v : 0;
}

INLINE f16 relu_f16(f16 v) {
  return v > 0 || v != v ? v : (f16)0;
}

INLINE bf16 relu_bf16(bf16 v) {
  return v > 0 || v != v ? v : 0;
}

INLINE bf16 sat_bf16(bf16 v) {
  return v > 0 ? (v < 1 ? v : 1) : 0;
}

INLINE f32 fma_f32(f32 a, f32 b, f32 c) {
  return __builtin_fmaf(a, b, c);
}

INLINE f64 fma_f64(f64 a, f64 b, f64 c) {
  return __builtin_fma(a, b, c);
}

INLINE f16 fma_f16(f16 a, f16 b, f16 c) {
  return (f16)((f64)a * b + c);
}

INLINE bf16 fma_bf16(bf16 a, bf16 b, bf16 c) {
  return (f32)((f64)a * b + c);
}

INLINE f32 fabs_f32(f32 v) {
  return __builtin_fabsf(v);
}

INLINE f64 fabs_f64(f64 v) {
  return __builtin_fabs(v);
}

INLINE f16 fabs_f16(f16 v) {
  return as_f16(bits_f16(v) & 0x7fff);
}

INLINE bf16 fabs_bf16(bf16 v) {
  return __builtin_fabsf(v);
}

INLINE f32 copysign_f32(f32 a, f32 s) {
  return __builtin_copysignf(a, s);
}

INLINE f64 copysign_f64(f64 a, f64 s) {
  return __builtin_copysign(a, s);
}

/* The result of min or max of magnitudes with the sign of a product: a NaN keeps its own. */
#define XORSIGN(T, C, SIGN)                                   \
  INLINE T xorsign_##T(T v, T a, T b) {                       \
    u32 sign = (u32)(bits_##C(a) ^ bits_##C(b)) & SIGN;       \
    return v != v ? v : as_##C((bits_##C(v) & ~SIGN) | sign); \
  }
XORSIGN(f16, f16, 0x8000u);
XORSIGN(bf16, f32, 0x80000000u);
XORSIGN(f32, f32, 0x80000000u);
