/* Atomic operations. All are sequentially consistent: thread blocks run on several workers. */

#define ATOMIC_INT(T)                                                                              \
  INLINE T atomic_add_##T(Access a, T v) {                                                         \
    return __atomic_fetch_add((T*)a.at, v, __ATOMIC_SEQ_CST);                                      \
  }                                                                                                \
  INLINE T atomic_min_##T(Access a, T v) {                                                         \
    T o = __atomic_load_n((T*)a.at, __ATOMIC_SEQ_CST);                                             \
    while (v < o &&                                                                                \
           !__atomic_compare_exchange_n((T*)a.at, &o, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) { \
    }                                                                                              \
    return o;                                                                                      \
  }                                                                                                \
  INLINE T atomic_max_##T(Access a, T v) {                                                         \
    T o = __atomic_load_n((T*)a.at, __ATOMIC_SEQ_CST);                                             \
    while (v > o &&                                                                                \
           !__atomic_compare_exchange_n((T*)a.at, &o, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) { \
    }                                                                                              \
    return o;                                                                                      \
  }
ATOMIC_INT(u32);
ATOMIC_INT(s32);
ATOMIC_INT(u64);
ATOMIC_INT(s64);

#define ATOMIC_BITS(T)                                                                         \
  INLINE T atomic_and_##T(Access a, T v) {                                                     \
    return __atomic_fetch_and((T*)a.at, v, __ATOMIC_SEQ_CST);                                  \
  }                                                                                            \
  INLINE T atomic_or_##T(Access a, T v) {                                                      \
    return __atomic_fetch_or((T*)a.at, v, __ATOMIC_SEQ_CST);                                   \
  }                                                                                            \
  INLINE T atomic_xor_##T(Access a, T v) {                                                     \
    return __atomic_fetch_xor((T*)a.at, v, __ATOMIC_SEQ_CST);                                  \
  }                                                                                            \
  INLINE T atomic_exch_##T(Access a, T v) {                                                    \
    return __atomic_exchange_n((T*)a.at, v, __ATOMIC_SEQ_CST);                                 \
  }                                                                                            \
  INLINE T atomic_cas_##T(Access a, T compare, T v) {                                          \
    __atomic_compare_exchange_n((T*)a.at, &compare, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    return compare;                                                                            \
  }
ATOMIC_BITS(u16);
ATOMIC_BITS(u32);
ATOMIC_BITS(u64);

INLINE u32 atomic_inc_u32(Access a, u32 v) {
  u32 o = __atomic_load_n((u32*)a.at, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n((u32*)a.at, &o, o >= v ? 0 : o + 1, 0, __ATOMIC_SEQ_CST,
                                      __ATOMIC_SEQ_CST)) {
  }
  return o;
}

INLINE u32 atomic_dec_u32(Access a, u32 v) {
  u32 o = __atomic_load_n((u32*)a.at, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n((u32*)a.at, &o, o == 0 || o > v ? v : o - 1, 0,
                                      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
  return o;
}

#define ATOMIC_FLOAT(T, U)                                                        \
  INLINE T atomic_add_##T(Access a, T v) {                                        \
    U o = __atomic_load_n((U*)a.at, __ATOMIC_SEQ_CST);                            \
    while (!__atomic_compare_exchange_n((U*)a.at, &o, bits_##T(as_##T(o) + v), 0, \
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {    \
    }                                                                             \
    return as_##T(o);                                                             \
  }
#define ATOMIC_PACKED(E)                                                                       \
  INLINE u32 atomic_add_##E##x2(Access a, u32 v) {                                             \
    u32 o = __atomic_load_n((u32*)a.at, __ATOMIC_SEQ_CST);                                     \
    while (!__atomic_compare_exchange_n((u32*)a.at, &o, pk_add_##E(o, v), 0, __ATOMIC_SEQ_CST, \
                                        __ATOMIC_SEQ_CST)) {                                   \
    }                                                                                          \
    return o;                                                                                  \
  }
#define ATOMIC_EXTREME(T, E)                                                                \
  INLINE T atomic_##E##_##T(Access a, T v) {                                                \
    u16 o = __atomic_load_n((u16*)a.at, __ATOMIC_SEQ_CST);                                  \
    while (!__atomic_compare_exchange_n((u16*)a.at, &o, bits_##T(E##_##T(as_##T(o), v)), 0, \
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {              \
    }                                                                                       \
    return as_##T(o);                                                                       \
  }
ATOMIC_EXTREME(f16, min);
ATOMIC_EXTREME(f16, max);
ATOMIC_EXTREME(bf16, min);
ATOMIC_EXTREME(bf16, max);
ATOMIC_PACKED(f16);
ATOMIC_PACKED(bf16);
ATOMIC_FLOAT(f32, u32);
ATOMIC_FLOAT(f64, u64);
ATOMIC_FLOAT(f16, u16);
ATOMIC_FLOAT(bf16, u16);
