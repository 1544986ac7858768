/* mbarrier. Bit 63 is the phase; from bit 40 the expected bytes that are pending, plus a bias; from
 * bit 20 the expected arrivals; from bit 0 the pending arrivals. One worker runs all threads of a
 * block, so plain accesses suffice. */
#define MB_BIAS (1ull << 21)

INLINE void mbarrier_set(Access m, u64 phase, u64 bytes, u64 expected, u64 pending) {
  STORE(u64, m, 0, phase << 63 | bytes << 40 | expected << 20 | pending);
}

INLINE void mbarrier_init(Access m, u32 n) {
  mbarrier_set(m, 0, MB_BIAS, n & 0xfffff, n & 0xfffff);
}

INLINE void mbarrier_inval(Access m) {
  STORE(u64, m, 0, 0);
}

INLINE u64 mbarrier_phase(Access m) {
  return LOAD(u64, m, 0) >> 63;
}

INLINE u32 mbarrier_pending(u64 state) {
  return (u32)(state & 0xfffff);
}

INLINE void mbarrier_change(Access m, s64 bytes, u64 expected, u64 pending) {
  u64 phase = LOAD(u64, m, 0) >> 63,
      all = ((LOAD(u64, m, 0) >> 40 & 0x3fffff) + (u64)bytes) & 0x3fffff;
  if (!pending && all == MB_BIAS) {
    phase ^= 1;
    pending = expected;
  }
  mbarrier_set(m, phase, all, expected, pending);
}

INLINE void mbarrier_expect(Access m, u32 bytes) {
  mbarrier_change(m, (s32)bytes, LOAD(u64, m, 0) >> 20 & 0xfffff, LOAD(u64, m, 0) & 0xfffff);
}

INLINE u64 mbarrier_arrive(Access m, u32 n, int drop) {
  u64 before = LOAD(u64, m, 0), expected = before >> 20 & 0xfffff, pending = before & 0xfffff;
  mbarrier_change(m, 0, drop ? expected - (n < expected ? n : expected) : expected,
                  pending - (n < pending ? n : pending));
  return before;
}
