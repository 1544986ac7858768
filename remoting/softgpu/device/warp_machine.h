/* The lanes of a warp stand at places; the lowest place with lanes that may go runs next, so that
 * they meet again. */
enum { LIVELOCK_TURNS = 64, YIELD_JUMPS = 20000 };

/* Lanes of `here` whose whole member mask has arrived. */
static u32 ready(Warp* w, int place, u32 here) {
  u32 out = 0;
  for (u32 l = 0; l < 32; ++l)
    if ((here >> l & 1) && !(members(w, place, l) & w->alive & ~here)) out |= 1u << l;
  return out;
}

static int pick(Warp* w, u32* mask) {
  int lowest = -1, chosen = -1;
  u32 m = 0;
  int last = ++w->turn % LIVELOCK_TURNS ==
             0; /* now and then the furthest lanes go first: a spinning lane may wait for them */
  for (int p = 0; p < PLACES; ++p) {
    if (!(p & 7) && p + 8 <= PLACES) { /* most places are empty: eight at a look */
      u64 eight[4];
      __builtin_memcpy(eight, &w->at[p], 32);
      if (!(eight[0] | eight[1] | eight[2] | eight[3])) {
        p += 7;
        continue;
      }
    }
    u32 here = w->at[p];
    if (!here) continue;
    if (lowest < 0) lowest = p;
    u32 go = is_sync[p] ? ready(w, p, here) : here;
    if (!go) continue;
    chosen = p;
    m = go;
    if (!last) break;
  }
  if (lowest < 0) return -1;
  if (chosen < 0) {
    if (w->bar_mask) return -1; /* the missing lanes wait at a barrier: other warps may free them */
    chosen = lowest;
    m = w->at[lowest]; /* the mask names lanes that never come: go without them */
  }
  w->at[chosen] &= ~m;
  *mask = m;
  return chosen;
}

#define NEXT(FROM, TO)                         \
  do {                                         \
    if (TO <= FROM && ++jumps > YIELD_JUMPS) { \
      w->at[TO] |= mask;                       \
      return;                                  \
    }                                          \
    if (mask == w->alive) goto L##TO;          \
    w->at[TO] |= mask;                         \
    goto pick;                                 \
  } while (0)
#define BRANCH(FROM, TAKEN, OTHER)                      \
  do {                                                  \
    taken &= mask;                                      \
    if (!taken) NEXT(FROM, OTHER);                      \
    if (taken == mask) NEXT(FROM, TAKEN);               \
    w->at[TAKEN] |= taken;                              \
    w->at[OTHER] |= mask & ~taken;                      \
    if (TAKEN <= FROM && ++jumps > YIELD_JUMPS) return; \
    goto pick;                                          \
  } while (0)
