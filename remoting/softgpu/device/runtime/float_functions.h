/* Approximate functions, minimum and maximum, and testp. */

#define FN(name, expression32, expression64) \
  INLINE f32 fn_##name##_f32(f32 x) {        \
    return expression32;                     \
  }                                          \
  INLINE f64 fn_##name##_f64(f64 x) {        \
    return expression64;                     \
  }                                          \
  INLINE f16 fn_##name##_f16(f16 v) {        \
    f32 x = (f32)v;                          \
    return (f16)(expression32);              \
  }                                          \
  INLINE bf16 fn_##name##_bf16(bf16 x) {     \
    return expression32;                     \
  }
FN(sqrt, __builtin_sqrtf(x), __builtin_sqrt(x));
FN(rsqrt_, (f32)(1.0 / __builtin_sqrt((f64)x)), 1.0 / __builtin_sqrt(x));
FN(rcp_, 1.0f / x, 1.0 / x);
FN(sin, sinf(x), sin(x));
FN(cos, cosf(x), cos(x));
FN(exp2, exp2f(x), exp2(x));
FN(log2, log2f(x), log2(x));
FN(tanh, tanhf(x), tanh(x));

#define EXTREME_F(T)                                                                            \
  INLINE T min_##T(T a, T b) {                                                                  \
    return a != a   ? b                                                                         \
           : b != b ? a                                                                         \
           : a < b  ? a                                                                         \
           : b < a  ? b                                                                         \
                    : (T) - (T)(-(f64)a > -(f64)b           ? -a                                \
                                : __builtin_signbit((f64)a) ? -a                                \
                                                            : -b);                               \
  }                                                                                             \
  INLINE T max_##T(T a, T b) {                                                                  \
    return a != a ? b : b != b ? a : a > b ? a : b > a ? b : __builtin_signbit((f64)a) ? b : a; \
  }                                                                                             \
  INLINE T min_##T##_nan(T a, T b) {                                                            \
    return a != a ? a : b != b ? b : min_##T(a, b);                                             \
  }                                                                                             \
  INLINE T max_##T##_nan(T a, T b) {                                                            \
    return a != a ? a : b != b ? b : max_##T(a, b);                                             \
  }
EXTREME_F(f32);
EXTREME_F(f64);
EXTREME_F(f16);

INLINE bf16 min_bf16(bf16 a, bf16 b) {
  return min_f32(a, b);
}

INLINE bf16 max_bf16(bf16 a, bf16 b) {
  return max_f32(a, b);
}

INLINE bf16 min_bf16_nan(bf16 a, bf16 b) {
  return min_f32_nan(a, b);
}

INLINE bf16 max_bf16_nan(bf16 a, bf16 b) {
  return max_f32_nan(a, b);
}

INLINE u8 test_finite(f64 v) {
  return __builtin_isfinite(v);
}

INLINE u8 test_infinite(f64 v) {
  return __builtin_isinf(v) != 0;
}

INLINE u8 test_number(f64 v) {
  return v == v;
}

INLINE u8 test_notanumber(f64 v) {
  return v != v;
}

INLINE u8 test_normal(f64 v) {
  return __builtin_isnormal(v);
}

INLINE u8 test_subnormal(f64 v) {
  return __builtin_isfinite(v) && v != 0 && !__builtin_isnormal(v);
}
