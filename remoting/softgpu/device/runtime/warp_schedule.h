/* Lockstep: each lane of a warp has a program counter, the number of a basic block. The lowest
 * program counter with lanes that are ready runs next, so that diverged lanes reconverge.
 *
 * Defined by the generated C before this text: struct Warp, PC_COUNT, is_sync and members(). */
enum {
  LIVELOCK_PERIOD = 64, /* every so many schedules, the highest program counter runs first */
  YIELD_JUMPS = 20000,  /* backward jumps after which a warp lets other warps run */
};

/* Return the lanes of `here` whose whole member mask has arrived. */
static u32 ready_lanes(Warp* w, int pc, u32 here) {
  u32 ready = 0;
  for (u32 l = 0; l < 32; ++l)
    if ((here >> l & 1) && !(members(w, pc, l) & w->alive & ~here)) ready |= 1u << l;
  return ready;
}

/* Most program counters have no lanes: test eight at a time. */
static int eight_are_empty(const Warp* w, int pc) {
  u64 eight[4];
  if ((pc & 7) || pc + 8 > PC_COUNT) return 0;
  __builtin_memcpy(eight, &w->lanes_at[pc], 32);
  return !(eight[0] | eight[1] | eight[2] | eight[3]);
}

/* Take the lanes that run next and return their program counter. Return -1 if all lanes have ended
 * or wait for other warps. */
static int schedule(Warp* w, u32* mask) {
  int lowest = -1, chosen = -1;
  u32 lanes = 0;
  /* A spinning lane may wait for lanes that are further on. */
  int highest_first = ++w->schedules % LIVELOCK_PERIOD == 0;
  for (int pc = 0; pc < PC_COUNT; ++pc) {
    if (eight_are_empty(w, pc)) {
      pc += 7;
      continue;
    }
    u32 here = w->lanes_at[pc];
    if (!here) continue;
    if (lowest < 0) lowest = pc;
    u32 ready = is_sync[pc] ? ready_lanes(w, pc, here) : here;
    if (!ready) continue;
    chosen = pc;
    lanes = ready;
    if (!highest_first) break;
  }
  if (lowest < 0) return -1;
  if (chosen < 0) {
    if (w->bar_mask) return -1; /* the missing lanes wait at a barrier: other warps may free them */
    chosen = lowest;
    lanes = w->lanes_at[lowest]; /* the mask names lanes that never arrive: run without them */
  }
  w->lanes_at[chosen] &= ~lanes;
  *mask = lanes;
  return chosen;
}

#define JUMP(FROM, TO)                         \
  do {                                         \
    if (TO <= FROM && ++jumps > YIELD_JUMPS) { \
      w->lanes_at[TO] |= mask;                 \
      return;                                  \
    }                                          \
    if (mask == w->alive) goto L##TO;          \
    w->lanes_at[TO] |= mask;                   \
    goto schedule;                             \
  } while (0)
#define BRANCH(FROM, TAKEN, OTHER)                      \
  do {                                                  \
    taken &= mask;                                      \
    if (!taken) JUMP(FROM, OTHER);                      \
    if (taken == mask) JUMP(FROM, TAKEN);               \
    w->lanes_at[TAKEN] |= taken;                        \
    w->lanes_at[OTHER] |= mask & ~taken;                \
    if (TAKEN <= FROM && ++jumps > YIELD_JUMPS) return; \
    goto schedule;                                      \
  } while (0)
