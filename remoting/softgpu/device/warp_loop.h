__attribute__((visibility("default"))) uint64_t softgpu_frame_bytes(uint32_t threads) {
  return (uint64_t)((threads + 31) / 32) * sizeof(Warp);
}

/* Registers keep what the last block left: a program that reads one before it writes it gets
 * anything, as on a GPU. */
static void start_warp(Cta* c, Warp* w, u32 index) {
  u32 first = index * 32, left = c->threads - first;
  u32 x = first % c->ntid[0], y = first / c->ntid[0] % c->ntid[1],
      z = first / c->ntid[0] / c->ntid[1];
  __builtin_memset(
      w, 0, offsetof(Warp, bar_id)); /* what lanes note at a barrier is written before it is read */
  w->index = index;
  w->alive = left >= 32 ? ~0u : (1u << left) - 1;
  w->at[0] = w->alive;
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

/* The common case: every warp stands whole at the same plain barrier. Returns how many lanes went
 * on. */
static u32 release_whole(Cta* c, Warp* W, u32 warps) {
  u32 id = 0, freed = 0;
  for (u32 i = 0; i < warps; ++i) {
    if (!W[i].alive) continue;
    if (!W[i].bar_whole || (id && W[i].bar_whole != id)) return 0;
    id = W[i].bar_whole;
  }
  if (!id || c->arrived[id - 1]) return 0;
  for (u32 i = 0; i < warps; ++i) {
    Warp* w = &W[i];
    if (!w->alive) continue;
    w->at[w->bar_place] |= w->bar_mask;
    freed += (u32)__builtin_popcount(w->bar_mask);
    w->bar_mask = w->bar_whole = 0;
  }
  return freed;
}

/* A warp that stands whole at a barrier, told lane by lane for the general case. */
static void tell_lanes(Warp* w) {
  for (u32 l = 0; l < 32; ++l)
    if (w->bar_mask >> l & 1) {
      w->bar_id[l] = w->bar_whole - 1;
      w->bar_count[l] = w->bar_vote[l] = 0;
      w->bar_next[l] = w->bar_place;
    }
  w->bar_whole = 0;
}

/* Frees every barrier that has all its threads. Returns how many lanes went on. */
static u32 release_barriers(Cta* c, Warp* W, u32 warps) {
  u32 waiting[17] = {0}, expected[17] = {0}, votes[17] = {0}, alive = 0,
      freed = release_whole(c, W, warps);
  if (freed) return freed;
  for (u32 i = 0; i < warps; ++i)
    if (W[i].bar_whole) tell_lanes(&W[i]);
  for (u32 i = 0; i < warps; ++i) {
    alive += (u32)__builtin_popcount(W[i].alive);
    for (u32 l = 0; l < 32; ++l)
      if (W[i].bar_mask >> l & 1) {
        u32 id = W[i].bar_id[l];
        waiting[id]++;
        votes[id] += W[i].bar_vote[l] != 0;
        if (W[i].bar_count[l]) expected[id] = W[i].bar_count[l];
      }
  }
  for (u32 id = 0; id < 17; ++id) {
    if (!waiting[id]) continue;
    u32 need = expected[id] && expected[id] < alive ? expected[id] : alive;
    if (waiting[id] + (id < 16 ? c->arrived[id] : 0) < need) continue;
    if (id == 16 && !c->grid_release) {
      c->grid_waiting = 1;
      continue;
    }
    if (id == 16) c->grid_release = 0;
    for (u32 i = 0; i < warps; ++i)
      for (u32 l = 0; l < 32; ++l) {
        Warp* w = &W[i];
        if (!(w->bar_mask >> l & 1) || w->bar_id[l] != id) continue;
        w->bar_sum[l] = votes[id];
        w->bar_total[l] = waiting[id];
        w->bar_mask &= ~(1u << l);
        w->at[w->bar_next[l]] |= 1u << l;
        ++freed;
      }
    if (id < 16) c->arrived[id] = 0;
  }
  return freed;
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
    u32 freed = release_barriers(c, W, warps);
    if (freed || (moved && !c->cooperative)) continue;
    if (moved) return CTA_YIELDED; /* a lane may spin until another block has been somewhere */
    if (c->cooperative && c->grid_waiting) return CTA_AT_GRID_BARRIER;
    c->host->fault(c, FAULT_TRAP, 0); /* every thread waits: no thread can free it */
  }
  return CTA_DONE;
}
