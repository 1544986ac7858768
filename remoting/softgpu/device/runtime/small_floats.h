/* Conversions of fp8 (OCP formats e4m3 and e5m2), smaller floats, tf32 and ue8m0. */

/* e4m3 has no infinity and one NaN of each sign. */
NOINLINE f32 from_e4m3(u32 v) {
  u32 e = v >> 3 & 15, m = v & 7;
  f32 r = e == 15 && m == 7 ? NAN : e ? ldexpf((f32)(8 + m), (int)e - 10) : ldexpf((f32)m, -9);
  return v & 128 ? -r : r;
}

NOINLINE f32 from_e5m2(u32 v) {
  return (f32)as_f16((u16)((v & 255) << 8));
}

/* A sign, an exponent and a fraction, without infinity and NaN: e3m2, e2m3 and e2m1. */
NOINLINE f32 from_finite(u32 v, int exponent, int fraction) {
  u32 e = v >> fraction & ((1u << exponent) - 1), m = v & ((1u << fraction) - 1);
  int bias = (1 << (exponent - 1)) - 1;
  f32 r = e ? ldexpf((f32)((1u << fraction) + m), (int)e - bias - fraction)
            : ldexpf((f32)m, 1 - bias - fraction);
  return v >> (exponent + fraction) & 1 ? -r : r;
}

/* tf32 keeps ten bits of fraction. Mode 0 rounds ties away from zero, 1 to even, 2 truncates. */
INLINE u32 to_tf32(f32 v, int mode, int relu) {
  u32 b = bits_f32(v);
  if (v != v) return 0x7fffffff;
  if (relu && v < 0) return 0;
  if ((b & 0x7fffffff) >= 0x7f800000) return b;
  if (mode == 0) b += 0x1000;
  if (mode == 1) b += 0xfff + (b >> 13 & 1);
  return b & 0xffffe000u;
}

/* e8m0: a power of two; 255 is NaN. */
NOINLINE f32 from_e8m0(u32 v) {
  v &= 255;
  return v == 255 ? NAN : v ? as_f32(v << 23) : as_f32(0x400000u);
}

/* Round up or towards zero. Values above the largest power become `beyond`. */
NOINLINE u32 to_e8m0(f32 v, int up, u32 beyond) {
  if (v != v) return 255;
  u32 b = bits_f32(v) & 0x7fffffffu, e = b >> 23, rest = b & 0x7fffffu;
  if (b >= 0x7f800000u) return beyond;
  if (e == 0) return up ? rest > 0x400000u : 0;
  if (up && rest) ++e;
  return e > 254 ? beyond : e;
}

/* The code of |v|, rounded to the nearest even and at most `max`. */
NOINLINE u32 code_of_size(f32 v, int mantissa, int bias, f32 max) {
  f32 a = __builtin_fabsf(v);
  if (a > max) a = max;
  int e = a > 0 ? ilogbf(a) : 0;
  if (e < 1 - bias || a == 0) e = 1 - bias;
  f32 steps = rintf(ldexpf(a, mantissa - e)); /* in units of the last place */
  if (ldexpf(steps, e - mantissa) > max) steps = ldexpf(max, mantissa - e);
  /* A carry out of the mantissa increments the exponent. */
  return (u32)steps + ((u32)(e + bias - 1) << mantissa);
}

INLINE u32 to_fp8(f32 v, int mantissa, int bias, f32 max) {
  return v != v ? 0x7f : bits_f32(v) >> 31 << 7 | code_of_size(v, mantissa, bias, max);
}

INLINE u32 to_e4m3(f32 v) {
  return to_fp8(v, 3, 7, 448.0f);
}

INLINE u32 to_e5m2(f32 v) {
  return to_fp8(v, 2, 15, 57344.0f);
}

/* NaN becomes the largest value. */
INLINE u32 to_finite(f32 v, int exponent, int fraction) {
  int bias = (1 << (exponent - 1)) - 1;
  f32 max = from_finite((1u << (exponent + fraction)) - 1, exponent, fraction);
  return v != v ? code_of_size(max, fraction, bias, max)
                : bits_f32(v) >> 31 << (exponent + fraction) | code_of_size(v, fraction, bias, max);
}

INLINE f32 from_e3m2(u32 v) {
  return from_finite(v, 3, 2);
}

INLINE f32 from_e2m3(u32 v) {
  return from_finite(v, 2, 3);
}

INLINE f32 from_e2m1(u32 v) {
  return from_finite(v, 2, 1);
}

INLINE u32 to_e3m2(f32 v) {
  return to_finite(v, 3, 2);
}

INLINE u32 to_e2m3(f32 v) {
  return to_finite(v, 2, 3);
}

INLINE u32 to_e2m1(f32 v) {
  return to_finite(v, 2, 1);
}
