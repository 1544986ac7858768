/* Dot products and differences of bytes and halves. */

#define DOT(A, B, TA, TB, R)                                                               \
  INLINE R dp4a_##A##_##B(u32 a, u32 b, u32 c) {                                           \
    R r = (R)c;                                                                            \
    for (int i = 0; i < 4; ++i) r += (R)(TA)(a >> 8 * i) * (R)(TB)(b >> 8 * i);            \
    return r;                                                                              \
  }                                                                                        \
  INLINE R dp2a_lo_##A##_##B(u32 a, u32 b, u32 c) {                                        \
    R r = (R)c;                                                                            \
    for (int i = 0; i < 2; ++i) r += (R)(TA##_)(a >> 16 * i) * (R)(TB)(b >> 8 * i);        \
    return r;                                                                              \
  }                                                                                        \
  INLINE R dp2a_hi_##A##_##B(u32 a, u32 b, u32 c) {                                        \
    R r = (R)c;                                                                            \
    for (int i = 0; i < 2; ++i) r += (R)(TA##_)(a >> 16 * i) * (R)(TB)(b >> (16 + 8 * i)); \
    return r;                                                                              \
  }
typedef u16 u8_;
typedef s16 s8_;
DOT(u32, u32, u8, u8, u32);
DOT(s32, s32, s8, s8, s32);
DOT(u32, s32, u8, s8, s32);
DOT(s32, u32, s8, u8, s32);

/* vabsdiff2 and vabsdiff4: absolute differences of halves or bytes, in place or summed. */
INLINE u32 absdiff(u32 a, u32 b, u32 c, u32 width, int signed_a, int signed_b, int add) {
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
