/* The warps of a block in lockstep mode: they take turns until all lanes have ended or wait.
 *
 * Barriers: a lane that waits has its bit in bar_mask and its barrier in bar_id, bar_count,
 * bar_vote and bar_next. A warp whose lanes all wait at the same plain barrier has bar_whole (the
 * barrier's number plus one) and bar_pc instead. */
enum {
  GRID_BARRIER = 16, /* numbers below are barriers of the block */
  BARRIERS = 17,
};

__attribute__((visibility("default"))) uint64_t softgpu_frame_bytes(uint32_t threads) {
  return (uint64_t)((threads + 31) / 32) * sizeof(Warp);
}

/* Registers keep the values of the block before: a program that reads one before it writes it gets
 * an undefined value, as on a GPU. */
static void start_warp(Cta* c, Warp* w, u32 index) {
  u32 first = index * 32, left = c->threads - first;
  u32 x = first % c->ntid[0], y = first / c->ntid[0] % c->ntid[1],
      z = first / c->ntid[0] / c->ntid[1];
  /* The members from bar_id on are written before they are read. */
  __builtin_memset(w, 0, offsetof(Warp, bar_id));
  w->index = index;
  w->alive = left >= 32 ? ~0u : (1u << left) - 1;
  w->lanes_at[0] = w->alive;
  if (x + 32 <= c->ntid[0]) {
    for (u32 l = 0; l < 32; ++l) {
      w->x[l] = x + l;
      w->y[l] = y;
      w->z[l] = z;
    }
    return;
  }
  for (u32 l = 0; l < 32; ++l) {
    w->x[l] = x;
    w->y[l] = y;
    w->z[l] = z;
    if (++x == c->ntid[0]) {
      x = 0;
      if (++y == c->ntid[1]) {
        y = 0;
        ++z;
      }
    }
  }
}

/* The common case: every warp waits as a whole at the same plain barrier. Return the number of
 * lanes that were released. */
static u32 release_whole_warps(Cta* c, Warp* W, u32 warps) {
  u32 id = 0, released = 0;
  for (u32 i = 0; i < warps; ++i) {
    if (!W[i].alive) continue;
    if (!W[i].bar_whole || (id && W[i].bar_whole != id)) return 0;
    id = W[i].bar_whole;
  }
  if (!id || c->arrived[id - 1]) return 0;
  for (u32 i = 0; i < warps; ++i) {
    Warp* w = &W[i];
    if (!w->alive) continue;
    w->lanes_at[w->bar_pc] |= w->bar_mask;
    released += (u32)__builtin_popcount(w->bar_mask);
    w->bar_mask = w->bar_whole = 0;
  }
  return released;
}

/* Turn the entry of a whole warp into one for each lane. */
static void expand_whole_barrier(Warp* w) {
  for (u32 l = 0; l < 32; ++l)
    if (w->bar_mask >> l & 1) {
      w->bar_id[l] = w->bar_whole - 1;
      w->bar_count[l] = w->bar_vote[l] = 0;
      w->bar_next[l] = w->bar_pc;
    }
  w->bar_whole = 0;
}

/* The waiting lanes of a block, by barrier; counts are in threads. */
typedef struct Waiting {
  u32 threads[BARRIERS], expected[BARRIERS], votes[BARRIERS], alive;
} Waiting;

static void count_waiting(const Warp* W, u32 warps, Waiting* waiting) {
  for (u32 i = 0; i < warps; ++i) {
    waiting->alive += (u32)__builtin_popcount(W[i].alive);
    for (u32 l = 0; l < 32; ++l)
      if (W[i].bar_mask >> l & 1) {
        u32 id = W[i].bar_id[l];
        waiting->threads[id]++;
        waiting->votes[id] += W[i].bar_vote[l] != 0;
        if (W[i].bar_count[l]) waiting->expected[id] = W[i].bar_count[l];
      }
  }
}

static u32 release_barrier(Warp* W, u32 warps, u32 id, const Waiting* waiting) {
  u32 released = 0;
  for (u32 i = 0; i < warps; ++i)
    for (u32 l = 0; l < 32; ++l) {
      Warp* w = &W[i];
      if (!(w->bar_mask >> l & 1) || w->bar_id[l] != id) continue;
      w->bar_sum[l] = waiting->votes[id];
      w->bar_total[l] = waiting->threads[id];
      w->bar_mask &= ~(1u << l);
      w->lanes_at[w->bar_next[l]] |= 1u << l;
      ++released;
    }
  return released;
}

/* Release every barrier that all its threads have reached. Return the number of lanes released. */
static u32 release_barriers(Cta* c, Warp* W, u32 warps) {
  Waiting waiting = {{0}, {0}, {0}, 0};
  u32 released = release_whole_warps(c, W, warps);
  if (released) return released;
  for (u32 i = 0; i < warps; ++i)
    if (W[i].bar_whole) expand_whole_barrier(&W[i]);
  count_waiting(W, warps, &waiting);
  for (u32 id = 0; id < BARRIERS; ++id) {
    if (!waiting.threads[id]) continue;
    u32 expected = waiting.expected[id];
    u32 need = expected && expected < waiting.alive ? expected : waiting.alive;
    if (waiting.threads[id] + (id < GRID_BARRIER ? c->arrived[id] : 0) < need) continue;
    if (id == GRID_BARRIER && !c->grid_release) {
      c->grid_waiting = 1;
      continue;
    }
    if (id == GRID_BARRIER) c->grid_release = 0;
    released += release_barrier(W, warps, id, &waiting);
    if (id < GRID_BARRIER) c->arrived[id] = 0;
  }
  return released;
}

__attribute__((visibility("default"))) int softgpu_kernel(Cta* c) {
  Warp* W = (Warp*)c->frames;
  u32 warps = (c->threads + 31) / 32, alive = 1;
  if (!c->started)
    for (u32 i = 0; i < warps; ++i) start_warp(c, &W[i], i);
  c->started = 1;
  while (alive) {
    alive = 0;
    u32 moved = 0;
    for (u32 i = 0; i < warps; ++i) {
      if (W[i].alive == W[i].bar_mask) {
        alive |= W[i].alive;
        continue;
      }
      run_warp(c, &W[i]);
      moved = 1;
      alive |= W[i].alive;
    }
    if (*c->stop) c->host->fault(c, FAULT_TRAP, 0);
    if (!alive) break;
    u32 released = release_barriers(c, W, warps);
    if (released || (moved && !c->cooperative)) continue;
    if (moved) return CTA_YIELDED; /* a lane may spin until another block makes progress */
    if (c->cooperative && c->grid_waiting) return CTA_AT_GRID_BARRIER;
    c->host->fault(c, FAULT_TRAP, 0); /* deadlock: every thread waits */
  }
  return CTA_DONE;
}
