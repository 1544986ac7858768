/* Thread loops of serial mode: no operation of the kernel crosses lanes, so the threads of a block
 * run one after the other. */
__attribute__((visibility("default"))) uint64_t softgpu_frame_bytes(uint32_t threads) {
  (void)threads;
  return 16;
}

/* `n` is the index of the thread in its block. */
#define FOR_EACH_ROW_INDEX            \
  u32 n = 0;                          \
  for (u32 z = 0; z < k.ntid[2]; ++z) \
    for (u32 y = 0; y < k.ntid[1]; ++y)
#define FOR_EACH_THREAD_OF_ROW \
  for (u32 x = 0, lane, warp; x < k.ntid[0] && (lane = n & 31, warp = n >> 5, 1); ++x, ++n)
#define FOR_EACH_THREAD FOR_EACH_ROW_INDEX FOR_EACH_THREAD_OF_ROW
/* Run whole rows in row mode where that is possible, and threads one by one elsewhere. */
#define FOR_EACH_ROW                                               \
  FOR_EACH_ROW_INDEX                                               \
  if (k.ntid[0] >= 4 && run_row(c, k, params, 0, y, z, k.ntid[0])) \
    n += k.ntid[0];                                                \
  else                                                             \
    FOR_EACH_THREAD_OF_ROW
