/* Values behind special registers. */

/* No store of a kernel changes these values, so the C compiler keeps them in registers. */
typedef struct Constants {
  u32 ntid[3], nctaid[3], ctaid[3];
  u64 shared_base;
  u32 shared_bytes;
} Constants;

INLINE Constants constants(const Cta* c) {
  Constants k = {{c->ntid[0], c->ntid[1], c->ntid[2]},
                 {c->nctaid[0], c->nctaid[1], c->nctaid[2]},
                 {c->ctaid[0], c->ctaid[1], c->ctaid[2]},
                 c->shared_base,
                 c->shared_bytes};
  return k;
}

/* %globaltimer: nanoseconds since 1970. */
NOINLINE u64 nanoseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (u64)t.tv_sec * 1000000000ull + (u64)t.tv_nsec;
}

/* %clock: the host has no portable cycle counter, so one cycle is one nanosecond. */
NOINLINE u64 cycles(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (u64)t.tv_sec * 1000000000ull + (u64)t.tv_nsec;
}

/* nanosleep: at most one millisecond, as the PTX manual says. */
NOINLINE void sleep_nanoseconds(u32 duration) {
  u64 begin = cycles(), limit = duration < 1000000 ? duration : 1000000;
  while (cycles() - begin < limit) {
  }
}
