/* Arithmetic with directed rounding: the nearest result, corrected by one step with the exact
 * error in a wider type. */

INLINE f32 narrow_rz(f64 v) {
  f32 r = (f32)v;
  return __builtin_fabs((f64)r) > __builtin_fabs(v) ? nextafterf(r, 0) : r;
}

INLINE f32 narrow_rm(f64 v) {
  f32 r = (f32)v;
  return (f64)r > v ? nextafterf(r, -INFINITY) : r;
}

INLINE f32 narrow_rp(f64 v) {
  f32 r = (f32)v;
  return (f64)r < v ? nextafterf(r, INFINITY) : r;
}

INLINE f64 narrow80_rz(long double v) {
  f64 r = (f64)v;
  return __builtin_fabsl(r) > __builtin_fabsl(v) ? nextafter(r, 0) : r;
}

INLINE f64 narrow80_rm(long double v) {
  f64 r = (f64)v;
  return r > v ? nextafter(r, -INFINITY) : r;
}

INLINE f64 narrow80_rp(long double v) {
  f64 r = (f64)v;
  return r < v ? nextafter(r, INFINITY) : r;
}

#define DIRECTED(m)                               \
  INLINE f32 add_##m##_f32(f32 a, f32 b) {        \
    return narrow_##m((f64)a + b);                \
  }                                               \
  INLINE f32 sub_##m##_f32(f32 a, f32 b) {        \
    return narrow_##m((f64)a - b);                \
  }                                               \
  INLINE f32 mul_##m##_f32(f32 a, f32 b) {        \
    return narrow_##m((f64)a * b);                \
  }                                               \
  INLINE f32 div_##m##_f32(f32 a, f32 b) {        \
    return narrow_##m((f64)a / b);                \
  }                                               \
  INLINE f32 fma_##m##_f32(f32 a, f32 b, f32 c) { \
    return narrow_##m((f64)a * b + c);            \
  }                                               \
  INLINE f64 add_##m##_f64(f64 a, f64 b) {        \
    return narrow80_##m((long double)a + b);      \
  }                                               \
  INLINE f64 sub_##m##_f64(f64 a, f64 b) {        \
    return narrow80_##m((long double)a - b);      \
  }                                               \
  INLINE f64 mul_##m##_f64(f64 a, f64 b) {        \
    return narrow80_##m((long double)a * b);      \
  }                                               \
  INLINE f64 div_##m##_f64(f64 a, f64 b) {        \
    return narrow80_##m((long double)a / b);      \
  }                                               \
  INLINE f64 fma_##m##_f64(f64 a, f64 b, f64 c) { \
    return narrow80_##m((long double)a * b + c);  \
  }                                               \
  INLINE f32 int_##m##_f32(s128 v) {              \
    return narrow_##m##_l((long double)v);        \
  }                                               \
  INLINE f64 int_##m##_f64(s128 v) {              \
    return narrow80_##m((long double)v);          \
  }
INLINE f32 narrow_rz_l(long double v) {
  f32 r = (f32)v;
  return __builtin_fabsl(r) > __builtin_fabsl(v) ? nextafterf(r, 0) : r;
}

INLINE f32 narrow_rm_l(long double v) {
  f32 r = (f32)v;
  return r > v ? nextafterf(r, -INFINITY) : r;
}

INLINE f32 narrow_rp_l(long double v) {
  f32 r = (f32)v;
  return r < v ? nextafterf(r, INFINITY) : r;
}
DIRECTED(rz);
DIRECTED(rm);
DIRECTED(rp);

/* 16-bit floats: the bits are a magnitude and a sign, so the next number has the next bits. */
INLINE u16 step_bits(u16 b, int up) {
  return (b & 0x7fff) == 0 ? (u16)(up ? 1 : 0x8001) : (u16)((b >> 15) == (u16)!up ? b + 1 : b - 1);
}

#define DIRECTED_HALF(T, m, UP)                   \
  INLINE T narrow_##m##_##T(long double v) {      \
    u16 b = bits_##T((T)v);                       \
    long double r = (long double)as_##T(b);       \
    int up = UP;                                  \
    if (up ? r < v : r > v) b = step_bits(b, up); \
    return as_##T(b);                             \
  }                                               \
  INLINE T int_##m##_##T(s128 v) {                \
    return narrow_##m##_##T((long double)v);      \
  }
DIRECTED_HALF(f16, rz, v < 0);
DIRECTED_HALF(f16, rm, 0);
DIRECTED_HALF(f16, rp, 1);
DIRECTED_HALF(bf16, rz, v < 0);
DIRECTED_HALF(bf16, rm, 0);
DIRECTED_HALF(bf16, rp, 1);
