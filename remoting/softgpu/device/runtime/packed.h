/* Pairs of floats in one register. */

INLINE u32 pack_f16(f32 hi, f32 lo) {
  return (u32)bits_f16((f16)hi) << 16 | bits_f16((f16)lo);
}

INLINE u32 pack_bf16(f32 hi, f32 lo) {
  return (u32)bits_bf16(hi) << 16 | bits_bf16(lo);
}

#define PACKED(E)                                                                 \
  INLINE u32 pk_add_##E(u32 a, u32 b) {                                           \
    return (u32)bits_##E(as_##E((u16)(a >> 16)) + as_##E((u16)(b >> 16))) << 16 | \
           bits_##E(as_##E((u16)a) + as_##E((u16)b));                             \
  }
PACKED(f16);
PACKED(bf16);
