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
#define I static inline __attribute__((always_inline, unused))
#define COLD static __attribute__((noinline, unused))

I f32 as_f32(u32 v) {
  f32 f;
  __builtin_memcpy(&f, &v, 4);
  return f;
}
I f64 as_f64(u64 v) {
  f64 f;
  __builtin_memcpy(&f, &v, 8);
  return f;
}
I f16 as_f16(u16 v) {
  f16 f;
  __builtin_memcpy(&f, &v, 2);
  return f;
}
I bf16 as_bf16(u16 v) {
  return as_f32((u32)v << 16);
}
I u32 bits_f32(f32 v) {
  u32 b;
  __builtin_memcpy(&b, &v, 4);
  return b;
}
I u64 bits_f64(f64 v) {
  u64 b;
  __builtin_memcpy(&b, &v, 8);
  return b;
}
I u16 bits_f16(f16 v) {
  u16 b;
  __builtin_memcpy(&b, &v, 2);
  return b;
}
I u16 bits_bf16(f32 v) {
  u32 b = bits_f32(v);
  if (v != v) return 0x7fff;
  return (u16)((b + 0x7fff + ((b >> 16) & 1)) >> 16);
}

/* ---- addresses ---- */
/* Both checks are one compare: rotated by log2(n), a misaligned address becomes too large for any
 * limit. n is a constant power of two. */
#define LOG2(n) ((n) == 1 ? 0 : (n) == 2 ? 1 : (n) == 4 ? 2 : (n) == 8 ? 3 : (n) == 16 ? 4 : 5)
COLD u8* at_elsewhere(Cta* c, u64 a, u32 n) {
  if (a & (n - 1)) c->host->fault(c, FAULT_MISALIGNED, a);
  return c->host->outside(c, a, n);
}
I u8* at_global(Cta* c, u64 a, u32 n) {
  u64 x = a - SOFTGPU_WINDOW_BASE, r = n == 1 ? x : x >> LOG2(n) | x << (64 - LOG2(n));
  return __builtin_expect(r >= SOFTGPU_WINDOW_BYTES >> LOG2(n), 0) ? at_elsewhere(c, a, n) : (u8*)a;
}
/* Addresses of the first, second and last of `length` accesses: they follow each other, aligned,
 * within device memory. */
I int in_steps(u64 first, u64 second, u64 last, u32 bytes, u32 length) {
  return second - first == bytes && last - first == (u64)bytes * (length - 1) &&
         !(first & (bytes - 1)) &&
         first - SOFTGPU_WINDOW_BASE < SOFTGPU_WINDOW_BYTES - (u64)bytes * length;
}
/* cp.async: done at once, which any wait for it allows. Bytes beyond `from` are zeroed. */
I void copy_async(u8* to, const u8* at, u32 bytes, u32 from) {
  if (from > bytes) from = bytes;
  __builtin_memcpy(to, at, from);
  __builtin_memset(to + from, 0, bytes - from);
}
/* What no store of a kernel can change. */
typedef struct Constants {
  u32 ntid[3], nctaid[3], ctaid[3];
  u64 shared_base;
  u32 shared_bytes;
} Constants;
I Constants constants(const Cta* c) {
  Constants k = {{c->ntid[0], c->ntid[1], c->ntid[2]},
                 {c->nctaid[0], c->nctaid[1], c->nctaid[2]},
                 {c->ctaid[0], c->ctaid[1], c->ctaid[2]},
                 c->shared_base,
                 c->shared_bytes};
  return k;
}
I u8* at_shared(Cta* c, const Constants* k, u32 a, u32 n) {
  u32 r = n == 1 ? a : a >> LOG2(n) | a << (32 - LOG2(n));
  if (__builtin_expect(r >= k->shared_bytes >> LOG2(n), 0))
    c->host->fault(c, a & (n - 1) ? FAULT_MISALIGNED : FAULT_SHARED, a);
  return (u8*)(k->shared_base + a);
}
/* Several accesses of n bytes within a span: none of them is left out, so what one of them may not
 * do, the first may not either. */
I u8* shared_group(Cta* c, const Constants* k, u32 first, u32 span, u32 n) {
  if (__builtin_expect((u64)first + span > k->shared_bytes || (first & (n - 1)), 0))
    c->host->fault(c, first & (n - 1) ? FAULT_MISALIGNED : FAULT_SHARED, first);
  return (u8*)(k->shared_base + first);
}
COLD u8* group_elsewhere(Cta* c, u64 first, u32 span, u32 n) {
  if (first & (n - 1)) c->host->fault(c, FAULT_MISALIGNED, first);
  return c->host->outside(c, first, span);
}
I u8* global_group(Cta* c, u64 first, u32 span, u32 n) {
  return __builtin_expect(
             first - SOFTGPU_WINDOW_BASE > SOFTGPU_WINDOW_BYTES - span || (first & (n - 1)), 0)
             ? group_elsewhere(c, first, span, n)
             : (u8*)first;
}
I void barrier_arrive(Cta* c, u32 id) {
  c->arrived[id & 15]++;
}
COLD u64 nanoseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (u64)t.tv_sec * 1000000000ull + (u64)t.tv_nsec;
}
COLD u64 cycles(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (u64)t.tv_sec * 1000000000ull + (u64)t.tv_nsec;
}

/* ---- floating point ---- */
I f32 ftz(f32 v) {
  return __builtin_fabsf(v) < 1.17549435e-38f ? __builtin_copysignf(0.0f, v) : v;
}
I f32 sat_f32(f32 v) {
  return v > 0 ? (v < 1 ? v : 1) : 0;
}
I f64 sat_f64(f64 v) {
  return v > 0 ? (v < 1 ? v : 1) : 0;
}
I f16 sat_f16(f16 v) {
  return v > 0 ? (v < 1 ? v : (f16)1) : (f16)0;
}
I f32 relu_f32(f32 v) {
  return v > 0 || v != v ? v : 0;
}
I f16 relu_f16(f16 v) {
  return v > 0 || v != v ? v : (f16)0;
}
I bf16 relu_bf16(bf16 v) {
  return v > 0 || v != v ? v : 0;
}
I bf16 sat_bf16(bf16 v) {
  return v > 0 ? (v < 1 ? v : 1) : 0;
}
I f32 fma_f32(f32 a, f32 b, f32 c) {
  return __builtin_fmaf(a, b, c);
}
I f64 fma_f64(f64 a, f64 b, f64 c) {
  return __builtin_fma(a, b, c);
}
I f16 fma_f16(f16 a, f16 b, f16 c) {
  return (f16)((f64)a * b + c);
}
I bf16 fma_bf16(bf16 a, bf16 b, bf16 c) {
  return (f32)((f64)a * b + c);
}
I f32 fabs_f32(f32 v) {
  return __builtin_fabsf(v);
}
I f64 fabs_f64(f64 v) {
  return __builtin_fabs(v);
}
I f16 fabs_f16(f16 v) {
  return as_f16(bits_f16(v) & 0x7fff);
}
I bf16 fabs_bf16(bf16 v) {
  return __builtin_fabsf(v);
}
I f32 copysign_f32(f32 a, f32 s) {
  return __builtin_copysignf(a, s);
}
I f64 copysign_f64(f64 a, f64 s) {
  return __builtin_copysign(a, s);
}

/* Directed rounding: the nearest result, corrected by one step with the exact error in a wider
 * type. */
I f32 narrow_rz(f64 v) {
  f32 r = (f32)v;
  return __builtin_fabs((f64)r) > __builtin_fabs(v) ? nextafterf(r, 0) : r;
}
I f32 narrow_rm(f64 v) {
  f32 r = (f32)v;
  return (f64)r > v ? nextafterf(r, -INFINITY) : r;
}
I f32 narrow_rp(f64 v) {
  f32 r = (f32)v;
  return (f64)r < v ? nextafterf(r, INFINITY) : r;
}
I f64 narrow80_rz(long double v) {
  f64 r = (f64)v;
  return __builtin_fabsl(r) > __builtin_fabsl(v) ? nextafter(r, 0) : r;
}
I f64 narrow80_rm(long double v) {
  f64 r = (f64)v;
  return r > v ? nextafter(r, -INFINITY) : r;
}
I f64 narrow80_rp(long double v) {
  f64 r = (f64)v;
  return r < v ? nextafter(r, INFINITY) : r;
}
#define DIRECTED(m)                              \
  I f32 add_##m##_f32(f32 a, f32 b) {            \
    return narrow_##m((f64)a + b);               \
  }                                              \
  I f32 sub_##m##_f32(f32 a, f32 b) {            \
    return narrow_##m((f64)a - b);               \
  }                                              \
  I f32 mul_##m##_f32(f32 a, f32 b) {            \
    return narrow_##m((f64)a * b);               \
  }                                              \
  I f32 div_##m##_f32(f32 a, f32 b) {            \
    return narrow_##m((f64)a / b);               \
  }                                              \
  I f32 fma_##m##_f32(f32 a, f32 b, f32 c) {     \
    return narrow_##m((f64)a * b + c);           \
  }                                              \
  I f64 add_##m##_f64(f64 a, f64 b) {            \
    return narrow80_##m((long double)a + b);     \
  }                                              \
  I f64 sub_##m##_f64(f64 a, f64 b) {            \
    return narrow80_##m((long double)a - b);     \
  }                                              \
  I f64 mul_##m##_f64(f64 a, f64 b) {            \
    return narrow80_##m((long double)a * b);     \
  }                                              \
  I f64 div_##m##_f64(f64 a, f64 b) {            \
    return narrow80_##m((long double)a / b);     \
  }                                              \
  I f64 fma_##m##_f64(f64 a, f64 b, f64 c) {     \
    return narrow80_##m((long double)a * b + c); \
  }                                              \
  I f32 int_##m##_f32(s128 v) {                  \
    return narrow_##m##_l((long double)v);       \
  }                                              \
  I f64 int_##m##_f64(s128 v) {                  \
    return narrow80_##m((long double)v);         \
  }
I f32 narrow_rz_l(long double v) {
  f32 r = (f32)v;
  return __builtin_fabsl(r) > __builtin_fabsl(v) ? nextafterf(r, 0) : r;
}
I f32 narrow_rm_l(long double v) {
  f32 r = (f32)v;
  return r > v ? nextafterf(r, -INFINITY) : r;
}
I f32 narrow_rp_l(long double v) {
  f32 r = (f32)v;
  return r < v ? nextafterf(r, INFINITY) : r;
}
DIRECTED(rz)
DIRECTED(rm) DIRECTED(rp)
    /* The halves: their bits are a magnitude and a sign, so a step to the next number is a step of
       the bits. */
    I u16 step_bits(u16 b, int up) {
  return (b & 0x7fff) == 0 ? (u16)(up ? 1 : 0x8001) : (u16)((b >> 15) == (u16)!up ? b + 1 : b - 1);
}
#define DIRECTED_HALF(T, m, UP)                   \
  I T narrow_##m##_##T(long double v) {           \
    u16 b = bits_##T((T)v);                       \
    long double r = (long double)as_##T(b);       \
    int up = UP;                                  \
    if (up ? r < v : r > v) b = step_bits(b, up); \
    return as_##T(b);                             \
  }                                               \
  I T int_##m##_##T(s128 v) {                     \
    return narrow_##m##_##T((long double)v);      \
  }
DIRECTED_HALF(f16, rz, v < 0)
DIRECTED_HALF(f16, rm, 0) DIRECTED_HALF(f16, rp, 1) DIRECTED_HALF(bf16, rz, v < 0)
    DIRECTED_HALF(bf16, rm, 0) DIRECTED_HALF(bf16, rp, 1) I f64 round_rni(f64 v) {
  return __builtin_rint(v);
}
I f64 round_rzi(f64 v) {
  return __builtin_trunc(v);
}
I f64 round_rmi(f64 v) {
  return __builtin_floor(v);
}
I f64 round_rpi(f64 v) {
  return __builtin_ceil(v);
}
#define ROUND_TO(m)                 \
  I f32 round_##m##_f32(f32 v) {    \
    return (f32)round_##m(v);       \
  }                                 \
  I f64 round_##m##_f64(f64 v) {    \
    return round_##m(v);            \
  }                                 \
  I f16 round_##m##_f16(f16 v) {    \
    return (f16)round_##m(v);       \
  }                                 \
  I bf16 round_##m##_bf16(bf16 v) { \
    return (f32)round_##m(v);       \
  }
ROUND_TO(rni)
ROUND_TO(rzi) ROUND_TO(rmi) ROUND_TO(rpi)
/* A float outside of the integer's range gives the nearest end, NaN gives 0. */
/* By way of a wider integer: gcc makes (float)(int)x a truncation, which keeps the sign of a zero.
 */
#define TO_INT(T, W, lo, hi)                                                     \
  I T to_##T(f64 v) {                                                            \
    return v != v ? 0 : v <= (f64)(lo) ? (lo) : v >= (f64)(hi) ? (hi) : (T)(W)v; \
  }
    TO_INT(s8, s64, INT8_MIN, INT8_MAX) TO_INT(s16, s64, INT16_MIN, INT16_MAX)
        TO_INT(s32, s64, INT32_MIN, INT32_MAX) TO_INT(s64, s128, INT64_MIN, INT64_MAX)
            TO_INT(u8, s64, 0, UINT8_MAX) TO_INT(u16, s64, 0, UINT16_MAX)
                TO_INT(u32, s64, 0, UINT32_MAX) TO_INT(u64, s128, 0, UINT64_MAX)
#define SAT_INT(T, lo, hi)                                   \
  I T sat_##T(s128 v) {                                      \
    return v<(s128)(lo) ? (lo) : v>(s128)(hi) ? (hi) : (T)v; \
  }
                    SAT_INT(s8, INT8_MIN, INT8_MAX) SAT_INT(s16, INT16_MIN, INT16_MAX)
                        SAT_INT(s32, INT32_MIN, INT32_MAX) SAT_INT(s64, INT64_MIN, INT64_MAX)
                            SAT_INT(u8, 0, UINT8_MAX) SAT_INT(u16, 0, UINT16_MAX)
                                SAT_INT(u32, 0, UINT32_MAX) SAT_INT(u64, 0, UINT64_MAX)
#define FN(name, expression32, expression64) \
  I f32 fn_##name##_f32(f32 x) {             \
    return expression32;                     \
  }                                          \
  I f64 fn_##name##_f64(f64 x) {             \
    return expression64;                     \
  }                                          \
  I f16 fn_##name##_f16(f16 v) {             \
    f32 x = (f32)v;                          \
    return (f16)(expression32);              \
  }                                          \
  I bf16 fn_##name##_bf16(bf16 x) {          \
    return expression32;                     \
  }
                                    FN(sqrt, __builtin_sqrtf(x), __builtin_sqrt(x))
                                        FN(rsqrt_, (f32)(1.0 / __builtin_sqrt((f64)x)),
                                           1.0 / __builtin_sqrt(x)) FN(rcp_, 1.0f / x, 1.0 / x)
                                            FN(sin, sinf(x), sin(x)) FN(cos, cosf(x), cos(x))
                                                FN(exp2, exp2f(x), exp2(x))
                                                    FN(log2, log2f(x), log2(x))
                                                        FN(tanh, tanhf(x), tanh(x))
#define EXTREME_F(T)                                                                            \
  I T min_##T(T a, T b) {                                                                       \
    return a != a   ? b                                                                         \
           : b != b ? a                                                                         \
           : a < b  ? a                                                                         \
           : b < a  ? b                                                                         \
                    : (T) - (T)(-(f64)a > -(f64)b           ? -a                                \
                                : __builtin_signbit((f64)a) ? -a                                \
                                                            : -b);                               \
  }                                                                                             \
  I T max_##T(T a, T b) {                                                                       \
    return a != a ? b : b != b ? a : a > b ? a : b > a ? b : __builtin_signbit((f64)a) ? b : a; \
  }                                                                                             \
  I T min_##T##_nan(T a, T b) {                                                                 \
    return a != a ? a : b != b ? b : min_##T(a, b);                                             \
  }                                                                                             \
  I T max_##T##_nan(T a, T b) {                                                                 \
    return a != a ? a : b != b ? b : max_##T(a, b);                                             \
  }
                                                            EXTREME_F(f32) EXTREME_F(f64)
                                                                EXTREME_F(f16) I bf16
    min_bf16(bf16 a, bf16 b) {
  return min_f32(a, b);
}
I bf16 max_bf16(bf16 a, bf16 b) {
  return max_f32(a, b);
}
I bf16 min_bf16_nan(bf16 a, bf16 b) {
  return min_f32_nan(a, b);
}
I bf16 max_bf16_nan(bf16 a, bf16 b) {
  return max_f32_nan(a, b);
}
I u8 test_finite(f64 v) {
  return __builtin_isfinite(v);
}
I u8 test_infinite(f64 v) {
  return __builtin_isinf(v) != 0;
}
I u8 test_number(f64 v) {
  return v == v;
}
I u8 test_notanumber(f64 v) {
  return v != v;
}
I u8 test_normal(f64 v) {
  return __builtin_isnormal(v);
}
I u8 test_subnormal(f64 v) {
  return __builtin_isfinite(v) && v != 0 && !__builtin_isnormal(v);
}

/* ---- pairs in one register ---- */
I u32 pack_f16(f32 hi, f32 lo) {
  return (u32)bits_f16((f16)hi) << 16 | bits_f16((f16)lo);
}
I u32 pack_bf16(f32 hi, f32 lo) {
  return (u32)bits_bf16(hi) << 16 | bits_bf16(lo);
}
#define PACKED(E, W, H, h)                                                                     \
  I W pk_add_##E(W a, W b) {                                                                   \
    return (W)bits_##E(as_##E((H)(a >> h)) + as_##E((H)(b >> h))) << h |                       \
           bits_##E(as_##E((H)a) + as_##E((H)b));                                              \
  }                                                                                            \
  I W pk_sub_##E(W a, W b) {                                                                   \
    return (W)bits_##E(as_##E((H)(a >> h)) - as_##E((H)(b >> h))) << h |                       \
           bits_##E(as_##E((H)a) - as_##E((H)b));                                              \
  }                                                                                            \
  I W pk_mul_##E(W a, W b) {                                                                   \
    return (W)bits_##E(as_##E((H)(a >> h)) * as_##E((H)(b >> h))) << h |                       \
           bits_##E(as_##E((H)a) * as_##E((H)b));                                              \
  }                                                                                            \
  I W pk_fma_##E(W a, W b, W c) {                                                              \
    return (W)bits_##E(fma_##E(as_##E((H)(a >> h)), as_##E((H)(b >> h)), as_##E((H)(c >> h)))) \
               << h |                                                                          \
           bits_##E(fma_##E(as_##E((H)a), as_##E((H)b), as_##E((H)c)));                        \
  }                                                                                            \
  I W pk_min_##E(W a, W b) {                                                                   \
    return (W)bits_##E(min_##E(as_##E((H)(a >> h)), as_##E((H)(b >> h)))) << h |               \
           bits_##E(min_##E(as_##E((H)a), as_##E((H)b)));                                      \
  }                                                                                            \
  I W pk_max_##E(W a, W b) {                                                                   \
    return (W)bits_##E(max_##E(as_##E((H)(a >> h)), as_##E((H)(b >> h)))) << h |               \
           bits_##E(max_##E(as_##E((H)a), as_##E((H)b)));                                      \
  }                                                                                            \
  I W pk_neg_##E(W a) {                                                                        \
    return a ^ ((W)1 << (2 * h - 1)) ^ ((W)1 << (h - 1));                                      \
  }
PACKED(f16, u32, u16, 16)
PACKED(bf16, u32, u16, 16) PACKED(f32, u64, u32, 32)

    /* fp8, as OCP has it: e4m3 has no infinity, one NaN of each sign. Conversions to it saturate
       and round to the nearest even. */
    COLD f32 from_e4m3(u32 v) {
  u32 e = v >> 3 & 15, m = v & 7;
  f32 r = e == 15 && m == 7 ? NAN : e ? ldexpf((f32)(8 + m), (int)e - 10) : ldexpf((f32)m, -9);
  return v & 128 ? -r : r;
}
COLD f32 from_e5m2(u32 v) {
  return (f32)as_f16((u16)((v & 255) << 8));
}
/* tf32 keeps ten bits of fraction: ties away from zero, to even, or cut. */
I u32 to_tf32(f32 v, int mode, int relu) {
  u32 b = bits_f32(v);
  if (v != v) return 0x7fffffff;
  if (relu && v < 0) return 0;
  if ((b & 0x7fffffff) >= 0x7f800000) return b;
  if (mode == 0) b += 0x1000;
  if (mode == 1) b += 0xfff + (b >> 13 & 1);
  return b & 0xffffe000u;
}
/* e8m0: a power of two, 255 is NaN. */
COLD f32 from_e8m0(u32 v) {
  v &= 255;
  return v == 255 ? NAN : v ? as_f32(v << 23) : as_f32(0x400000u);
}
/* Rounds up or towards zero; beyond the largest it saturates, or is NaN. */
COLD u32 to_e8m0(f32 v, int up, u32 beyond) {
  if (v != v) return 255;
  u32 b = bits_f32(v) & 0x7fffffffu, e = b >> 23, rest = b & 0x7fffffu;
  if (b >= 0x7f800000u) return beyond;
  if (e == 0) return up ? rest > 0x400000u : 0;
  if (up && rest) ++e;
  return e > 254 ? beyond : e;
}
COLD u32 to_fp8(f32 v, int mantissa, int bias, f32 max) {
  if (v != v) return 0x7f;
  u32 sign = bits_f32(v) >> 31 << 7;
  f32 a = __builtin_fabsf(v);
  if (a > max) a = max;
  int e = a > 0 ? ilogbf(a) : 0;
  if (e < 1 - bias || a == 0) e = 1 - bias;
  f32 steps = rintf(ldexpf(a, mantissa - e)); /* in units of the last place */
  if (ldexpf(steps, e - mantissa) > max) steps = ldexpf(max, mantissa - e);
  u32 s = (u32)steps,
      code = s + ((u32)(e + bias - 1)
                  << mantissa); /* a carry out of the mantissa goes into the exponent by itself */
  return sign | code;
}
I u32 to_e4m3(f32 v) {
  return to_fp8(v, 3, 7, 448.0f);
}
I u32 to_e5m2(f32 v) {
  return to_fp8(v, 2, 15, 57344.0f);
}

/* ---- integers ---- */
I s16 mulhi_s16(s16 a, s16 b) {
  return (s16)(((s32)a * b) >> 16);
}
I u16 mulhi_u16(u16 a, u16 b) {
  return (u16)(((u32)a * b) >> 16);
}
I s32 mulhi_s32(s32 a, s32 b) {
  return (s32)(((s64)a * b) >> 32);
}
I u32 mulhi_u32(u32 a, u32 b) {
  return (u32)(((u64)a * b) >> 32);
}
I s64 mulhi_s64(s64 a, s64 b) {
  return (s64)(((s128)a * b) >> 64);
}
I u64 mulhi_u64(u64 a, u64 b) {
  return (u64)(((u128)a * b) >> 64);
}
I s32 add_sat_s32(s32 a, s32 b) {
  return sat_s32((s128)a + b);
}
I s32 sub_sat_s32(s32 a, s32 b) {
  return sat_s32((s128)a - b);
}
I s32 mul24_s32(s32 a, s32 b) {
  return (s32)((u32)((s32)((u32)a << 8) >> 8) * (u32)((s32)((u32)b << 8) >> 8));
}
I u32 mul24_u32(u32 a, u32 b) {
  return (a & 0xffffff) * (b & 0xffffff);
}
I s32 mad24_s32(s32 a, s32 b, s32 c) {
  return (s32)((u32)mul24_s32(a, b) + (u32)c);
}
I u32 mad24_u32(u32 a, u32 b, u32 c) {
  return mul24_u32(a, b) + c;
}
/* Division by zero gives all ones and the dividend as remainder; the one overflow wraps. */
#define DIVIDE(S, U)                                                \
  I U div_##U(U a, U b) {                                           \
    return b ? (U)(a / b) : (U) ~(U)0;                              \
  }                                                                 \
  I U rem_##U(U a, U b) {                                           \
    return b ? (U)(a % b) : a;                                      \
  }                                                                 \
  I S div_##S(S a, S b) {                                           \
    return b == 0 ? (S) - 1 : b == -1 ? (S)(0 - (U)a) : (S)(a / b); \
  }                                                                 \
  I S rem_##S(S a, S b) {                                           \
    return b == 0 ? a : b == -1 ? 0 : (S)(a % b);                   \
  }                                                                 \
  I U min_##U(U a, U b) {                                           \
    return a < b ? a : b;                                           \
  }                                                                 \
  I U max_##U(U a, U b) {                                           \
    return a > b ? a : b;                                           \
  }                                                                 \
  I S min_##S(S a, S b) {                                           \
    return a < b ? a : b;                                           \
  }                                                                 \
  I S max_##S(S a, S b) {                                           \
    return a > b ? a : b;                                           \
  }
DIVIDE(s16, u16) DIVIDE(s32, u32) DIVIDE(s64, u64) I u32 clz_u32(u32 v) {
  return v ? (u32)__builtin_clz(v) : 32;
}
I u32 clz_u64(u64 v) {
  return v ? (u32)__builtin_clzll(v) : 64;
}
I u32 brev_u32(u32 v) {
  v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
  v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
  v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(v);
}
I u64 brev_u64(u64 v) {
  return (u64)brev_u32((u32)v) << 32 | brev_u32((u32)(v >> 32));
}
#define BITFIELD(U, S, W)                                    \
  I U bfe_##U(U a, u32 pos, u32 len) {                       \
    pos &= 255;                                              \
    len &= 255;                                              \
    if (!len || pos >= W) return 0;                          \
    a >>= pos;                                               \
    return len >= W ? a : a & (((U)1 << len) - 1);           \
  }                                                          \
  I S bfe_##S(S a, u32 pos, u32 len) {                       \
    pos &= 255;                                              \
    len &= 255;                                              \
    if (!len) return 0;                                      \
    u32 top = pos + len - 1 < W - 1 ? pos + len - 1 : W - 1; \
    U sign = (U)a >> top & 1;                                \
    U r = 0;                                                 \
    if (pos < W) {                                           \
      r = (U)a >> pos;                                       \
      u32 width = top + 1 - pos;                             \
      if (width < W) r &= ((U)1 << width) - 1;               \
      if (sign && width < W) r |= ~(U)0 << width;            \
    } else if (sign)                                         \
      r = ~(U)0;                                             \
    return (S)r;                                             \
  }                                                          \
  I U bfi_##U(U a, U b, u32 pos, u32 len) {                  \
    pos &= 255;                                              \
    len &= 255;                                              \
    if (!len || pos >= W) return b;                          \
    U m = (len >= W ? ~(U)0 : ((U)1 << len) - 1) << pos;     \
    return (b & ~m) | (a << pos & m);                        \
  }                                                          \
  I u32 bfind_##U(U a, int amount) {                         \
    if (!a) return ~0u;                                      \
    u32 p = W - 1 - clz_##U(a);                              \
    return amount ? W - 1 - p : p;                           \
  }                                                          \
  I u32 bfind_##S(S a, int amount) {                         \
    return bfind_##U(a < 0 ? (U)~a : (U)a, amount);          \
  }
BITFIELD(u32, s32, 32) BITFIELD(u64, s64, 64) I u32 shf_l_wrap(u32 lo, u32 hi, u32 n) {
  n &= 31;
  return n ? hi << n | lo >> (32 - n) : hi;
}
I u32 shf_r_wrap(u32 lo, u32 hi, u32 n) {
  n &= 31;
  return n ? lo >> n | hi << (32 - n) : lo;
}
I u32 shf_l_clamp(u32 lo, u32 hi, u32 n) {
  return n >= 32 ? lo : shf_l_wrap(lo, hi, n);
}
I u32 shf_r_clamp(u32 lo, u32 hi, u32 n) {
  return n >= 32 ? hi : shf_r_wrap(lo, hi, n);
}
I u32 lop3(u32 a, u32 b, u32 c, u32 t) {
  u32 r = 0;
  if (t & 1) r |= ~a & ~b & ~c;
  if (t & 2) r |= ~a & ~b & c;
  if (t & 4) r |= ~a & b & ~c;
  if (t & 8) r |= ~a & b & c;
  if (t & 16) r |= a & ~b & ~c;
  if (t & 32) r |= a & ~b & c;
  if (t & 64) r |= a & b & ~c;
  if (t & 128) r |= a & b & c;
  return r;
}
I u32 prmt(u32 a, u32 b, u32 s, u32 mode) {
  static const u32 f4e[4] = {0x3210, 0x4321, 0x5432, 0x6543},
                   b4e[4] = {0x5670, 0x6701, 0x7012, 0x0123},
                   rc8[4] = {0x0000, 0x1111, 0x2222, 0x3333},
                   ecl[4] = {0x3210, 0x3211, 0x3222, 0x3333},
                   ecr[4] = {0x0000, 0x1110, 0x2210, 0x3210},
                   rc16[4] = {0x1010, 0x3232, 0x1010, 0x3232};
  static const u32* const table[7] = {0, f4e, b4e, rc8, ecl, ecr, rc16};
  u64 v = (u64)b << 32 | a;
  if (mode) s = table[mode][s & 3];
  u32 r = 0;
  for (int i = 0; i < 4; ++i) {
    u32 k = s >> (4 * i) & 15;
    u32 byte = (u32)(v >> (8 * (k & 7))) & 255;
    if (k & 8) byte = byte & 128 ? 255 : 0;
    r |= byte << (8 * i);
  }
  return r;
}
I u32 fns(u32 mask, u32 base, s32 offset) {
  if (offset == 0) return base < 32 && (mask >> base & 1) ? base : ~0u;
  s32 step = offset > 0 ? 1 : -1, left = offset > 0 ? offset : -offset;
  for (s32 i = (s32)base; i >= 0 && i < 32; i += step)
    if ((mask >> i & 1) && --left == 0) return (u32)i;
  return ~0u;
}
I u32 bmsk_clamp(u32 a, u32 b) {
  u64 m = (b >= 32 ? 0xffffffffull : (1ull << b) - 1);
  return a >= 32 ? 0 : (u32)(m << a);
}
I u32 bmsk_wrap(u32 a, u32 b) {
  return bmsk_clamp(a & 31, b & 31);
}
I u32 szext_u32_clamp(u32 a, u32 n) {
  return n >= 32 ? a : a & ((1u << n) - 1);
}
I s32 szext_s32_clamp(s32 a, u32 n) {
  return n >= 32 ? a : n == 0 ? 0 : (s32)((u32)a << (32 - n)) >> (32 - n);
}
I u32 szext_u32_wrap(u32 a, u32 n) {
  return szext_u32_clamp(a, n & 31);
}
I s32 szext_s32_wrap(s32 a, u32 n) {
  return szext_s32_clamp(a, n & 31);
}
#define DOT(A, B, TA, TB, R)                                                               \
  I R dp4a_##A##_##B(u32 a, u32 b, u32 c) {                                                \
    R r = (R)c;                                                                            \
    for (int i = 0; i < 4; ++i) r += (R)(TA)(a >> 8 * i) * (R)(TB)(b >> 8 * i);            \
    return r;                                                                              \
  }                                                                                        \
  I R dp2a_lo_##A##_##B(u32 a, u32 b, u32 c) {                                             \
    R r = (R)c;                                                                            \
    for (int i = 0; i < 2; ++i) r += (R)(TA##_)(a >> 16 * i) * (R)(TB)(b >> 8 * i);        \
    return r;                                                                              \
  }                                                                                        \
  I R dp2a_hi_##A##_##B(u32 a, u32 b, u32 c) {                                             \
    R r = (R)c;                                                                            \
    for (int i = 0; i < 2; ++i) r += (R)(TA##_)(a >> 16 * i) * (R)(TB)(b >> (16 + 8 * i)); \
    return r;                                                                              \
  }
typedef u16 u8_;
typedef s16 s8_;
DOT(u32, u32, u8, u8, u32)
DOT(s32, s32, s8, s8, s32) DOT(u32, s32, u8, s8, s32) DOT(s32, u32, s8, u8, s32)

    /* vabsdiff2 and vabsdiff4: differences of halves or bytes, each in its place, or their sum. */
    I u32 absdiff(u32 a, u32 b, u32 c, u32 width, int signed_a, int signed_b, int add) {
  u32 mask = (1u << width) - 1, out = add ? c : 0;
  for (u32 at = 0; at < 32; at += width) {
    s32 x = (s32)(a >> at & mask), y = (s32)(b >> at & mask);
    if (signed_a && x >> (width - 1)) x -= (s32)mask + 1;
    if (signed_b && y >> (width - 1)) y -= (s32)mask + 1;
    u32 d = (u32)(x > y ? x - y : y - x);
    out += add ? d : (d & mask) << at;
  }
  return out;
}

/* ---- atomics: thread blocks run on several threads ---- */
#define ATOMIC_INT(T)                                                                           \
  I T atomic_add_##T(u8* p, T v) {                                                              \
    return __atomic_fetch_add((T*)p, v, __ATOMIC_SEQ_CST);                                      \
  }                                                                                             \
  I T atomic_min_##T(u8* p, T v) {                                                              \
    T o = __atomic_load_n((T*)p, __ATOMIC_SEQ_CST);                                             \
    while (v < o &&                                                                             \
           !__atomic_compare_exchange_n((T*)p, &o, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) { \
    }                                                                                           \
    return o;                                                                                   \
  }                                                                                             \
  I T atomic_max_##T(u8* p, T v) {                                                              \
    T o = __atomic_load_n((T*)p, __ATOMIC_SEQ_CST);                                             \
    while (v > o &&                                                                             \
           !__atomic_compare_exchange_n((T*)p, &o, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) { \
    }                                                                                           \
    return o;                                                                                   \
  }
ATOMIC_INT(u32)
ATOMIC_INT(s32) ATOMIC_INT(u64) ATOMIC_INT(s64)
#define ATOMIC_BITS(T)                                                                      \
  I T atomic_and_##T(u8* p, T v) {                                                          \
    return __atomic_fetch_and((T*)p, v, __ATOMIC_SEQ_CST);                                  \
  }                                                                                         \
  I T atomic_or_##T(u8* p, T v) {                                                           \
    return __atomic_fetch_or((T*)p, v, __ATOMIC_SEQ_CST);                                   \
  }                                                                                         \
  I T atomic_xor_##T(u8* p, T v) {                                                          \
    return __atomic_fetch_xor((T*)p, v, __ATOMIC_SEQ_CST);                                  \
  }                                                                                         \
  I T atomic_exch_##T(u8* p, T v) {                                                         \
    return __atomic_exchange_n((T*)p, v, __ATOMIC_SEQ_CST);                                 \
  }                                                                                         \
  I T atomic_cas_##T(u8* p, T compare, T v) {                                               \
    __atomic_compare_exchange_n((T*)p, &compare, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    return compare;                                                                         \
  }
    ATOMIC_BITS(u16) ATOMIC_BITS(u32) ATOMIC_BITS(u64) I u32 atomic_inc_u32(u8* p, u32 v) {
  u32 o = __atomic_load_n((u32*)p, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n((u32*)p, &o, o >= v ? 0 : o + 1, 0, __ATOMIC_SEQ_CST,
                                      __ATOMIC_SEQ_CST)) {
  }
  return o;
}
I u32 atomic_dec_u32(u8* p, u32 v) {
  u32 o = __atomic_load_n((u32*)p, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n((u32*)p, &o, o == 0 || o > v ? v : o - 1, 0, __ATOMIC_SEQ_CST,
                                      __ATOMIC_SEQ_CST)) {
  }
  return o;
}
#define ATOMIC_FLOAT(T, U)                                                                       \
  I T atomic_add_##T(u8* p, T v) {                                                               \
    U o = __atomic_load_n((U*)p, __ATOMIC_SEQ_CST);                                              \
    while (!__atomic_compare_exchange_n((U*)p, &o, bits_##T(as_##T(o) + v), 0, __ATOMIC_SEQ_CST, \
                                        __ATOMIC_SEQ_CST)) {                                     \
    }                                                                                            \
    return as_##T(o);                                                                            \
  }
#define ATOMIC_PACKED(E)                                                                    \
  I u32 atomic_add_##E##x2(u8* p, u32 v) {                                                  \
    u32 o = __atomic_load_n((u32*)p, __ATOMIC_SEQ_CST);                                     \
    while (!__atomic_compare_exchange_n((u32*)p, &o, pk_add_##E(o, v), 0, __ATOMIC_SEQ_CST, \
                                        __ATOMIC_SEQ_CST)) {                                \
    }                                                                                       \
    return o;                                                                               \
  }
ATOMIC_PACKED(f16)
ATOMIC_PACKED(bf16) ATOMIC_FLOAT(f32, u32) ATOMIC_FLOAT(f64, u64) ATOMIC_FLOAT(f16, u16)
    ATOMIC_FLOAT(bf16, u16)
/* mbarrier: phase in bit 63, announced bytes that are still to come (biased) from 40, arrivals
   expected from 20, arrivals still to come from 0. One worker runs all threads of a block, so plain
   accesses do. */
#define MB_BIAS (1ull << 21)
        I void mbarrier_set(u64* m, u64 phase, u64 bytes, u64 expected, u64 pending) {
  *m = phase << 63 | bytes << 40 | expected << 20 | pending;
}
I void mbarrier_init(u64* m, u32 n) {
  mbarrier_set(m, 0, MB_BIAS, n & 0xfffff, n & 0xfffff);
}
I u32 mbarrier_pending(u64 state) {
  return (u32)(state & 0xfffff);
}
I void mbarrier_change(u64* m, s64 bytes, u64 expected, u64 pending) {
  u64 phase = *m >> 63, all = ((*m >> 40 & 0x3fffff) + (u64)bytes) & 0x3fffff;
  if (!pending && all == MB_BIAS) {
    phase ^= 1;
    pending = expected;
  }
  mbarrier_set(m, phase, all, expected, pending);
}
I void mbarrier_expect(u64* m, u32 bytes) {
  mbarrier_change(m, (s32)bytes, *m >> 20 & 0xfffff, *m & 0xfffff);
}
I u64 mbarrier_arrive(u64* m, u32 n, int drop) {
  u64 before = *m, expected = before >> 20 & 0xfffff, pending = before & 0xfffff;
  mbarrier_change(m, 0, drop ? expected - (n < expected ? n : expected) : expected,
                  pending - (n < pending ? n : pending));
  return before;
}

/* shfl: the lane to read from, and whether it is in range (PTX ISA, shfl.sync). */
I u8 shuffle_source(u32 mode, u32 lane, u32 b, u32 c, u32* from) {
  u32 clamp = c & 31, segment = c >> 8 & 31, count = b & 31,
      max = (lane & segment) | (clamp & ~segment), min = lane & segment;
  s32 j;
  u8 ok;
  if (mode == 0) {
    j = (s32)lane - (s32)count;
    ok = j >= (s32)max;
  } else if (mode == 1) {
    j = (s32)(lane + count);
    ok = j <= (s32)max;
  } else if (mode == 2) {
    j = (s32)(lane ^ count);
    ok = j <= (s32)max;
  } else {
    j = (s32)(min | (count & ~segment));
    ok = j <= (s32)max;
  }
  *from = ok ? (u32)j & 31 : lane;
  return ok;
}
