/* Pairs of floats in one register. */

INLINE u32 pack_f16(f32 hi, f32 lo) {
  return (u32)bits_f16((f16)hi) << 16 | bits_f16((f16)lo);
}

INLINE u32 pack_bf16(f32 hi, f32 lo) {
  return (u32)bits_bf16(hi) << 16 | bits_bf16(lo);
}

#define PACKED(E, W, H, h)                                                                     \
  INLINE W pk_add_##E(W a, W b) {                                                              \
    return (W)bits_##E(as_##E((H)(a >> h)) + as_##E((H)(b >> h))) << h |                       \
           bits_##E(as_##E((H)a) + as_##E((H)b));                                              \
  }                                                                                            \
  INLINE W pk_sub_##E(W a, W b) {                                                              \
    return (W)bits_##E(as_##E((H)(a >> h)) - as_##E((H)(b >> h))) << h |                       \
           bits_##E(as_##E((H)a) - as_##E((H)b));                                              \
  }                                                                                            \
  INLINE W pk_mul_##E(W a, W b) {                                                              \
    return (W)bits_##E(as_##E((H)(a >> h)) * as_##E((H)(b >> h))) << h |                       \
           bits_##E(as_##E((H)a) * as_##E((H)b));                                              \
  }                                                                                            \
  INLINE W pk_fma_##E(W a, W b, W c) {                                                         \
    return (W)bits_##E(fma_##E(as_##E((H)(a >> h)), as_##E((H)(b >> h)), as_##E((H)(c >> h)))) \
               << h |                                                                          \
           bits_##E(fma_##E(as_##E((H)a), as_##E((H)b), as_##E((H)c)));                        \
  }                                                                                            \
  INLINE W pk_min_##E(W a, W b) {                                                              \
    return (W)bits_##E(min_##E(as_##E((H)(a >> h)), as_##E((H)(b >> h)))) << h |               \
           bits_##E(min_##E(as_##E((H)a), as_##E((H)b)));                                      \
  }                                                                                            \
  INLINE W pk_max_##E(W a, W b) {                                                              \
    return (W)bits_##E(max_##E(as_##E((H)(a >> h)), as_##E((H)(b >> h)))) << h |               \
           bits_##E(max_##E(as_##E((H)a), as_##E((H)b)));                                      \
  }                                                                                            \
  INLINE W pk_neg_##E(W a) {                                                                   \
    return a ^ ((W)1 << (2 * h - 1)) ^ ((W)1 << (h - 1));                                      \
  }
PACKED(f16, u32, u16, 16);
PACKED(bf16, u32, u16, 16);
PACKED(f32, u64, u32, 32);
