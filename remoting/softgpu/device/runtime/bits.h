/* Bit counts, bit fields, shifts and permutations. */

INLINE u32 clz_u32(u32 v) {
  return v ? (u32)__builtin_clz(v) : 32;
}

INLINE u32 clz_u64(u64 v) {
  return v ? (u32)__builtin_clzll(v) : 64;
}

INLINE u32 brev_u32(u32 v) {
  v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
  v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
  v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(v);
}

INLINE u64 brev_u64(u64 v) {
  return (u64)brev_u32((u32)v) << 32 | brev_u32((u32)(v >> 32));
}

#define BITFIELD(U, S, W)                                    \
  INLINE U bfe_##U(U a, u32 pos, u32 len) {                  \
    pos &= 255;                                              \
    len &= 255;                                              \
    if (!len || pos >= W) return 0;                          \
    a >>= pos;                                               \
    return len >= W ? a : a & (((U)1 << len) - 1);           \
  }                                                          \
  INLINE S bfe_##S(S a, u32 pos, u32 len) {                  \
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
  INLINE U bfi_##U(U a, U b, u32 pos, u32 len) {             \
    pos &= 255;                                              \
    len &= 255;                                              \
    if (!len || pos >= W) return b;                          \
    U m = (len >= W ? ~(U)0 : ((U)1 << len) - 1) << pos;     \
    return (b & ~m) | (a << pos & m);                        \
  }                                                          \
  INLINE u32 bfind_##U(U a, int amount) {                    \
    if (!a) return ~0u;                                      \
    u32 p = W - 1 - clz_##U(a);                              \
    return amount ? W - 1 - p : p;                           \
  }                                                          \
  INLINE u32 bfind_##S(S a, int amount) {                    \
    return bfind_##U(a < 0 ? (U)~a : (U)a, amount);          \
  }
BITFIELD(u32, s32, 32);
BITFIELD(u64, s64, 64);

INLINE u32 shf_l_wrap(u32 lo, u32 hi, u32 n) {
  n &= 31;
  return n ? hi << n | lo >> (32 - n) : hi;
}

INLINE u32 shf_r_wrap(u32 lo, u32 hi, u32 n) {
  n &= 31;
  return n ? lo >> n | hi << (32 - n) : lo;
}

INLINE u32 shf_l_clamp(u32 lo, u32 hi, u32 n) {
  return n >= 32 ? lo : shf_l_wrap(lo, hi, n);
}

INLINE u32 shf_r_clamp(u32 lo, u32 hi, u32 n) {
  return n >= 32 ? hi : shf_r_wrap(lo, hi, n);
}

INLINE u32 lop3(u32 a, u32 b, u32 c, u32 t) {
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

INLINE u32 prmt(u32 a, u32 b, u32 s, u32 mode) {
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

INLINE u32 fns(u32 mask, u32 base, s32 offset) {
  if (offset == 0) return base < 32 && (mask >> base & 1) ? base : ~0u;
  s32 step = offset > 0 ? 1 : -1, left = offset > 0 ? offset : -offset;
  for (s32 i = (s32)base; i >= 0 && i < 32; i += step)
    if ((mask >> i & 1) && --left == 0) return (u32)i;
  return ~0u;
}

INLINE u32 bmsk_clamp(u32 a, u32 b) {
  u64 m = (b >= 32 ? 0xffffffffull : (1ull << b) - 1);
  return a >= 32 ? 0 : (u32)(m << a);
}

INLINE u32 bmsk_wrap(u32 a, u32 b) {
  return bmsk_clamp(a & 31, b & 31);
}

INLINE u32 szext_u32_clamp(u32 a, u32 n) {
  return n >= 32 ? a : a & ((1u << n) - 1);
}

INLINE s32 szext_s32_clamp(s32 a, u32 n) {
  return n >= 32 ? a : n == 0 ? 0 : (s32)((u32)a << (32 - n)) >> (32 - n);
}

INLINE u32 szext_u32_wrap(u32 a, u32 n) {
  return szext_u32_clamp(a, n & 31);
}

INLINE s32 szext_s32_wrap(s32 a, u32 n) {
  return szext_s32_clamp(a, n & 31);
}
