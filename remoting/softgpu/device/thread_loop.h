/* No operation of this kernel crosses lanes: the threads of a block run one after the other. */
__attribute__((visibility("default"))) uint64_t softgpu_frame_bytes(uint32_t threads) { (void)threads; return 16; }
__attribute__((visibility("default"))) void softgpu_kernel(Cta* c) {
  Thread t = {0};
  t.local = (u8*)c->local_base; t.local_end = t.local + c->local_bytes;
  u32 n = 0;
  for (t.z = 0; t.z < c->ntid[2]; ++t.z)
    for (t.y = 0; t.y < c->ntid[1]; ++t.y)
      for (t.x = 0; t.x < c->ntid[0]; ++t.x, ++n) { t.lane = n & 31; t.warp = n >> 5; run_thread(c, &t); }
}
