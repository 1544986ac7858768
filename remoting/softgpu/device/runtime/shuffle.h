/* shfl: find the lane to read from. Return whether it is in range (PTX ISA, shfl.sync). Modes: up,
 * down, bfly, idx. */
INLINE u8 shuffle_source(u32 mode, u32 lane, u32 b, u32 c, u32* from) {
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
