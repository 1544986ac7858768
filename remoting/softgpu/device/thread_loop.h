/* No operation of this kernel crosses lanes: the threads of a block run one after the other. */
__attribute__((visibility("default"))) uint64_t softgpu_frame_bytes(uint32_t threads) {
  (void)threads;
  return 16;
}
#define ROWS                          \
  u32 n = 0;                          \
  for (u32 z = 0; z < k.ntid[2]; ++z) \
    for (u32 y = 0; y < k.ntid[1]; ++y)
#define ROW \
  for (u32 x = 0, lane, warp; x < k.ntid[0] && (lane = n & 31, warp = n >> 5, 1); ++x, ++n)
#define THREADS ROWS ROW
/* A row at once where that is possible; else thread by thread. */
#define STREAMS                                                                                \
  ROWS if (k.ntid[0] >= 4 && softgpu_stream(c, k, params, 0, y, z, k.ntid[0])) n += k.ntid[0]; \
  else ROW
__attribute__((visibility("default"))) int softgpu_kernel(Cta* c) {
